// DataLoader returns this rank's samples in batches. Threads load them in advance.
#pragma once

#include <ddp/distributed_sampler.h>
#include <ddp/export.h>
#include <ddp/prefetch_queue.h>
#include <ddp/rehearsal.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ddp {

// Selects how the last batch is handled if it has fewer than batch_size samples. Its size is the same on all ranks,
// because all have the same number of samples.
enum class LastBatch : std::uint8_t {
  keep,
  drop,
  merge,  // adds its samples to the previous batch, if there is one, because a batch of one sample breaks batch
          // normalisation
};

struct LoaderOptions {
  std::int64_t batch_size = 1;  // samples per batch of this rank
  int prefetch = 2;             // batches that are ready or being loaded, in addition to the one in use
  int threads = 1;  // each thread makes whole batches; with 0 the loop itself loads them, and none in advance
  LastBatch last_batch = LastBatch::keep;
  Rehearsal* rehearse_last_batch = nullptr;  // if set, the first loop runs the last batch first, and undoes its step
};

// Returns how many batches a loader makes of so many samples. Throws invalid_argument unless batch_size is 1 or more.
DDP_EXPORT std::int64_t batch_count(std::int64_t samples, const LoaderOptions& options);

// Accepts types with numbered samples of a movable type. Several threads read samples at the same time.
template <typename T>
concept Dataset = requires(const T& dataset, std::int64_t index) {
  { dataset.size() } -> std::convertible_to<std::int64_t>;
  dataset[index];
};

template <Dataset Data>
using SampleOf = std::remove_cvref_t<decltype(std::declval<const Data&>()[std::int64_t{}])>;

template <typename Sample>
struct Batch {
  std::vector<std::int64_t> indices;  // indices into the data set
  std::vector<Sample> samples;
};

// Selects Batch as the batch type, for a program without its own collate function.
struct NoCollate {};

namespace detail {

template <typename Sample, typename Collate>
struct CollatedBatch {
  using Type = std::remove_cvref_t<std::invoke_result_t<const Collate&, std::vector<Sample>&&>>;
};
template <typename Sample>
struct CollatedBatch<Sample, NoCollate> {
  using Type = Batch<Sample>;
};

DDP_EXPORT void check_loader(const LoaderOptions& options, const DistributedSampler& sampler,
                             std::int64_t dataset_size);

// Returns the indices of one batch.
DDP_EXPORT std::span<const std::int64_t> batch_indices(std::span<const std::int64_t> indices, std::int64_t number,
                                                       const LoaderOptions& options);

// Throws, in an exception handler, an Error whose message is `where` followed by the message of the handled exception.
[[noreturn]] DDP_EXPORT void rethrow_from(const std::string& where);

// Runs the rehearsal of one pass.
class DDP_EXPORT RehearsalOfPass {
 public:
  RehearsalOfPass(const LoaderOptions& options, const DistributedSampler& sampler,
                  std::span<const std::int64_t> indices);
  // Ends a rehearsal that is running.
  ~RehearsalOfPass();
  RehearsalOfPass(const RehearsalOfPass&) = delete;
  RehearsalOfPass& operator=(const RehearsalOfPass&) = delete;

  // Returns true, once, if the pass begins with the last batch.
  bool begin();
  // Undoes the step. Throws invalid_argument if the sampler has changed.
  void end();

 private:
  Rehearsal* rehearsal_ = nullptr;  // null if there is none, or it has ended
  const DistributedSampler& sampler_;
  const SamplerState position_;
  const int exceptions_;
  std::string what_;
};

}  // namespace detail

// A loop over it gets the batches that the sampler has left in its epoch when the loop begins. The batches come in the
// sampler's order, regardless of thread timing. `collate`, if given, makes a batch of any type out of a
// std::vector<Sample>. Several of the loader's threads may call it at the same time. The loader refers to the data set
// and the sampler, which must outlive it and its iterators.
//
//   ddp::DataLoader loader(dataset, sampler, {.batch_size = 32, .prefetch = 4, .threads = 2});
//   for (std::int64_t epoch = sampler.state().epoch; epoch < 10; sampler.set_epoch(++epoch)) {
//     for (auto& batch : loader) {
//       …                                            // one step with batch.samples
//       sampler.consume(std::ssize(batch.indices));  // for a run that can resume here
//     }
//   }
//
// The loader does not change the sampler. Batches that are only prefetched do not count as consumed, so a checkpoint
// between two steps records the samples that the steps have used. After the whole epoch is consumed, no batch is left
// until the program calls set_epoch.
//
// A batch lives until the loop asks for the next one. The program may move its contents out. The threads live as long
// as the iterator. If the program leaves a loop early, each thread stops after its current sample. The loader does not
// fork, so the program may have threads and GPUs.
//
// The batch type decides where its memory lies. For a GPU, collate can write into page-locked memory of a MemoryPool.
// ProcessGroup::copy then copies each batch into a buffer that ProcessGroup::allocate made there.
//
// If the data set or collate throws, the loop gets an Error in place of that batch. Its message names the sample
// ("sample 1234: cannot open …"). Its kind is that of the exception if it was an Error, and otherwise `unavailable`.
// The exception itself is nested (std::rethrow_if_nested). Afterwards the program can begin a new loop.
//
// With LoaderOptions::rehearse_last_batch, the first loop begins with the last batch, and undoes its step (Rehearsal).
// It does so if this batch has another size than batch_size and is not the only one. size() does not count it.
template <Dataset Data, typename Collate = NoCollate>
class DataLoader {
 public:
  using Sample = SampleOf<Data>;
  using BatchType = typename detail::CollatedBatch<Sample, Collate>::Type;
  class Iterator;

  // Throws invalid_argument if an option is out of range, or the sampler is for a data set of another size. Also throws
  // it if a whole epoch of this rank has no batch.
  DataLoader(const Data& dataset, const DistributedSampler& sampler, LoaderOptions options = {}, Collate collate = {})
      : dataset_(&dataset),
        sampler_(&sampler),
        options_(options),
        collate_(std::make_shared<const Collate>(std::move(collate))) {
    detail::check_loader(options, sampler, static_cast<std::int64_t>(dataset.size()));
  }
  // Temporaries are rejected because they would be destroyed before the first batch.
  DataLoader(const Data&&, const DistributedSampler&, LoaderOptions = {}, Collate = {}) = delete;
  DataLoader(const Data&, const DistributedSampler&&, LoaderOptions = {}, Collate = {}) = delete;

  // Returns the number of batches left in the epoch.
  std::int64_t size() const { return batch_count(sampler_->size(), options_); }

  // Starts threads, and waits for the first batch. Each call is a separate pass.
  Iterator begin() const { return Iterator(std::make_unique<Pass>(*this)); }
  std::default_sentinel_t end() const { return {}; }

 private:
  struct Pass;

  const Data* dataset_;
  const DistributedSampler* sampler_;
  LoaderOptions options_;
  std::shared_ptr<const Collate> collate_;  // shared with each pass
};

// Is an input iterator for one pass. It is movable only.
template <Dataset Data, typename Collate>
class DataLoader<Data, Collate>::Iterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using value_type = BatchType;
  using difference_type = std::ptrdiff_t;

  BatchType& operator*() const { return *batch_; }
  BatchType* operator->() const { return batch_.get(); }

  // Waits for the next batch.
  Iterator& operator++() {
    batch_.reset();
    batch_ = pass_->next();
    return *this;
  }
  void operator++(int) { ++*this; }

  friend bool operator==(const Iterator& iterator, std::default_sentinel_t) { return iterator.batch_ == nullptr; }

 private:
  friend class DataLoader;
  explicit Iterator(std::unique_ptr<Pass> pass) : pass_(std::move(pass)) { ++*this; }

  std::unique_ptr<Pass> pass_;
  std::shared_ptr<BatchType> batch_;
};

// Holds the data that the threads of one iteration share.
template <Dataset Data, typename Collate>
struct DataLoader<Data, Collate>::Pass {
  explicit Pass(const DataLoader& loader)
      : dataset(*loader.dataset_),
        collate(loader.collate_),
        options(loader.options_),
        indices(loader.sampler_->indices()),
        rehearsal(options, *loader.sampler_, indices) {}

  std::shared_ptr<BatchType> next() {
    const std::int64_t count = batch_count(std::ssize(indices), options);
    if (!queue) {
      if (rehearsal.begin()) return load_last(count - 1);
      rehearsal.end();
      queue.emplace(PrefetchQueue::Options{.jobs = count, .ahead = options.prefetch, .threads = options.threads},
                    [this](std::int64_t number, const std::stop_token& stop) { return load(number, stop); });
    }
    return std::static_pointer_cast<BatchType>(queue->next());
  }

  std::shared_ptr<BatchType> load_last(std::int64_t number) {
    try {
      return load(number, {});
    } catch (...) {
      rehearsal.end();
      detail::rethrow_from("rehearsal of the last batch");
    }
  }

  std::shared_ptr<BatchType> load(std::int64_t number, const std::stop_token& stop) const {
    const std::span<const std::int64_t> own = detail::batch_indices(indices, number, options);
    std::vector<Sample> samples;
    samples.reserve(own.size());
    for (const std::int64_t index : own) {
      if (stop.stop_requested()) return nullptr;
      try {
        samples.emplace_back(dataset[index]);
      } catch (...) {
        detail::rethrow_from("sample " + std::to_string(index));
      }
    }
    if constexpr (std::is_same_v<Collate, NoCollate>) {
      return std::make_shared<BatchType>(BatchType{{own.begin(), own.end()}, std::move(samples)});
    } else {
      try {
        return std::make_shared<BatchType>(std::invoke(*collate, std::move(samples)));
      } catch (...) {
        detail::rethrow_from("collate of " + std::to_string(own.size()) + " samples from sample " +
                             std::to_string(own.front()));
      }
    }
  }

  const Data& dataset;
  const std::shared_ptr<const Collate> collate;
  const LoaderOptions options;
  const std::vector<std::int64_t> indices;
  detail::RehearsalOfPass rehearsal;
  std::optional<PrefetchQueue> queue;  // set when the rehearsal has ended, because loading may change what it restores
};

}  // namespace ddp
