// Implements the part of DataLoader that does not depend on the types of samples.
#include <ddp/data_loader.h>
#include <ddp/error.h>

#include <cstdio>
#include <exception>

#include "base/text.h"

namespace ddp {
namespace {

void require_loader(bool condition, const std::string& message) {
  if (!condition) throw Error(ErrorKind::invalid_argument, "DataLoader: " + message);
}

}  // namespace

std::int64_t batch_count(std::int64_t samples, const LoaderOptions& options) {
  require_loader(options.batch_size >= 1,
                 "batch_size is " + std::to_string(options.batch_size) + "; it must be 1 or more");
  const std::int64_t whole = samples / options.batch_size;
  const bool is_short = samples % options.batch_size != 0;
  switch (options.last_batch) {
    case LastBatch::keep:
      return whole + (is_short ? 1 : 0);
    case LastBatch::drop:
      return whole;
    case LastBatch::merge:
      return whole == 0 && is_short ? 1 : whole;
  }
  return 0;
}

namespace detail {

void check_loader(const LoaderOptions& options, const DistributedSampler& sampler, std::int64_t dataset_size) {
  require_loader(options.threads >= 0, "threads is " + std::to_string(options.threads) + "; it must be 0 or more");
  require_loader(options.prefetch >= (options.threads > 0 ? 1 : 0),
                 "prefetch is " + std::to_string(options.prefetch) +
                     "; it must be 1 or more. To load nothing ahead, use threads = 0.");
  require_loader(dataset_size == sampler.dataset_size(), "the sampler is for " +
                                                             base::counted(sampler.dataset_size(), "sample") +
                                                             ", but the data set has " + std::to_string(dataset_size));
  // The check uses a whole epoch, because a resumed training may have fewer samples left in its current epoch.
  DistributedSampler whole_epoch = sampler;
  whole_epoch.set_epoch(0);
  require_loader(batch_count(whole_epoch.size(), options) > 0,
                 "this rank has " + base::counted(whole_epoch.size(), "sample") + ", fewer than one batch of " +
                     std::to_string(options.batch_size) +
                     ", which LastBatch::drop leaves out. Use a smaller batch_size, fewer ranks, or LastBatch::keep.");
}

std::span<const std::int64_t> batch_indices(std::span<const std::int64_t> indices, std::int64_t number,
                                            const LoaderOptions& options) {
  const std::int64_t first = number * options.batch_size;
  const bool is_last = number + 1 == batch_count(std::ssize(indices), options);
  const bool takes_rest = is_last && options.last_batch != LastBatch::drop;
  const std::int64_t count = takes_rest ? std::ssize(indices) - first : options.batch_size;
  return indices.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

RehearsalOfPass::RehearsalOfPass(const LoaderOptions& options, const DistributedSampler& sampler,
                                 std::span<const std::int64_t> indices)
    : sampler_(sampler), position_(sampler.state()), exceptions_(std::uncaught_exceptions()) {
  const std::int64_t count = batch_count(std::ssize(indices), options);
  if (options.rehearse_last_batch == nullptr || options.rehearse_last_batch->was_made() || count < 2) return;
  const std::span<const std::int64_t> last = batch_indices(indices, count - 1, options);
  if (std::ssize(last) == options.batch_size) return;
  rehearsal_ = options.rehearse_last_batch;
  what_ = base::counted(std::ssize(last), "sample") + " in place of " + std::to_string(options.batch_size) +
          ", from sample " + std::to_string(last.front());
}

RehearsalOfPass::~RehearsalOfPass() {
  if (rehearsal_ == nullptr || !rehearsal_->is_running()) return;
  if (std::uncaught_exceptions() > exceptions_) {
    std::fprintf(stderr,
                 "ddp: error: the step failed in the rehearsal of the last batch (%s). Without rehearse_last_batch, it "
                 "would fail at the end of the epoch.\n",
                 what_.c_str());
  }
  try {
    rehearsal_->end();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ddp: error: cannot undo the rehearsal of the last batch: %s\n", error.what());
  }
}

bool RehearsalOfPass::begin() {
  if (rehearsal_ == nullptr || rehearsal_->was_made()) return false;
  rehearsal_->begin(what_);
  return true;
}

void RehearsalOfPass::end() {
  if (rehearsal_ == nullptr) return;
  std::exchange(rehearsal_, nullptr)->end();
  require_loader(sampler_.state() == position_,
                 "the loop called consume() in the rehearsal of the last batch. Write `if (rehearsal.is_running()) "
                 "continue;` before it, or name the sampler in the Rehearsal.");
}

void rethrow_from(const std::string& where) {
  try {
    throw;
  } catch (const Error& error) {
    std::throw_with_nested(Error(error.kind(), where + ": " + error.what(), error.peer()));
  } catch (const std::exception& error) {
    std::throw_with_nested(Error(ErrorKind::unavailable, where + ": " + error.what()));
  } catch (...) {
    std::throw_with_nested(Error(ErrorKind::unavailable, where + ": an exception that is not a std::exception"));
  }
}

}  // namespace detail
}  // namespace ddp
