#include "launcher/process/image_directory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "base/side_thread.h"
#include "base/unique_fd.h"
#include "launcher/limits.h"
#include "wire/state_file.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using wire::KeptImage;
using wire::KeptState;
using wire::StateEntry;
using wire::StateKind;

// Images that are not complete have a hidden directory.
constexpr std::string_view kStaging = ".";
// Files that are not complete have this at the end of their name.
constexpr std::string_view kPart = ".part";

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  return names;
}

// Writes an image. Its functions throw what has gone wrong.
class Writer {
 public:
  Writer(const ImageTask& task, const std::atomic<bool>& is_urgent)
      : task_(task),
        memory_(task.descriptor),
        is_urgent_(is_urgent),
        image_{task.job_began, task.step.attempt, task.step.step, task.step.world, false},
        staging_(task.directory + "/" + std::string(kStaging) + name_of(image_)) {}

  WrittenImage write() {
    WrittenImage result;
    try {
      result.is_complete = exists() || (write_files() && complete());
      result.has_any = result.is_complete || has_any();
    } catch (const Overtaken&) {
      result.is_overtaken = true;
    } catch (const fs::filesystem_error& error) {
      result.failure = error.code().message();
    }
    if (!result.failure.empty() || result.is_overtaken) {
      std::error_code ignored;
      fs::remove_all(staging_, ignored);  // it would never be complete
    }
    result.time = expected_time();
    return result;
  }

 private:
  struct Overtaken {};

  [[noreturn]] static void fail(const std::string& path) {
    const int code = errno;
    // Another launcher has removed the directory, because something newer is complete.
    if (code == ENOENT) throw Overtaken();
    throw fs::filesystem_error("", path, std::error_code(code, std::generic_category()));
  }

  bool exists() const {
    return std::ranges::any_of(images_in(task_.directory), [this](KeptImage one) {
      one.has_one_key = image_.has_one_key;
      return one == image_;
    });
  }
  bool has_any() const {
    return std::ranges::any_of(images_in(task_.directory),
                               [this](const KeptImage& one) { return one.job_began == image_.job_began; });
  }

  bool write_files() {
    fs::create_directories(task_.directory);
    if (::mkdir(staging_.c_str(), 0700) != 0 && errno != EEXIST) fail(staging_);
    for (const KeptState& own : task_.step.own) write_file(own, wire::own_file_of(own.rank));
    for (const KeptState& whole : task_.step.whole) write_file(whole, wire::whole_file_of(whole.key));
    return true;
  }

  // The first launcher that begins with a key writes it for all nodes.
  void write_file(const KeptState& state, const std::string& name) {
    const std::string path = staging_ + "/" + name;
    const std::string part = path + std::string(kPart);
    if (::access(path.c_str(), F_OK) == 0) return;
    const base::UniqueFd file(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file && errno == EEXIST) return;
    if (!file) fail(part);
    const auto before = memory_.entry(state.area, state.place);
    const bool is_it = before && before->attempt == state.attempt && before->step == state.step &&
                       before->key == state.key && before->rank == state.rank && before->bytes == state.bytes;
    if (!is_it) throw Overtaken();
    write_entry(file.get(), part, *before);
    copy(file.get(), part, state);
    const auto after = memory_.entry(state.area, state.place);
    if (!after || after->check != before->check || after->attempt != before->attempt) throw Overtaken();
    if (::rename(part.c_str(), path.c_str()) != 0) fail(path);
  }

  static void write_entry(int file, const std::string& path, const StateEntry& entry) {
    std::vector<std::byte> head(wire::kImageDataAt);
    const auto bytes = std::as_bytes(std::span(&entry, 1));
    std::ranges::copy(bytes, head.begin());
    if (!wire::write_at(file, 0, head)) fail(path);
  }

  void copy(int file, const std::string& path, const KeptState& state) {
    std::vector<std::byte> piece(std::min<std::uint64_t>(state.bytes, limits::kImagePiece));
    for (std::uint64_t at = 0; at < state.bytes; at += piece.size()) {
      const auto began = Clock::now();
      piece.resize(std::min<std::uint64_t>(piece.size(), state.bytes - at));
      if (!memory_.read(state.area, state.place, at, piece)) throw Overtaken();
      if (!wire::write_at(file, wire::kImageDataAt + at, piece) || ::fdatasync(file) != 0) fail(path);
      written_ += piece.size();
      if (!is_urgent_)
        std::this_thread::sleep_for(std::min<Clock::duration>(Clock::now() - began, limits::kImagePause));
    }
    if (::fsync(file) != 0) fail(path);
  }

  // Names the image if all files are there.
  bool complete() {
    const std::vector<std::string> names = names_in(staging_);
    const std::set<std::string> files(names.begin(), names.end());
    for (int rank = 0; rank < image_.world; ++rank) {
      if (!files.contains(wire::own_file_of(rank))) return false;
    }
    std::set<std::uint64_t> keys;
    std::set<StateKind> kinds;
    for (int rank = 0; rank < image_.world; ++rank) {
      const std::string path = staging_ + "/" + wire::own_file_of(rank);
      const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      const auto entry = file ? wire::image_entry(file.get()) : std::nullopt;
      if (!entry || !files.contains(wire::whole_file_of(entry->key))) return false;
      keys.insert(entry->key);
      kinds.insert(entry->kind);
    }
    // See plan_restore(): what a rank lacks that has not finished the step is taken from one that has.
    if (kinds.contains(StateKind::early) &&
        (!kinds.contains(StateKind::final) || kinds.contains(StateKind::final_moved)))
      return false;
    image_.has_one_key = keys.size() == 1;
    const std::string path = task_.directory + "/" + name_of(image_);
    if (::rename(staging_.c_str(), path.c_str()) != 0) return errno == ENOENT || errno == ENOTEMPTY;
    const base::UniqueFd directory(::open(task_.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory) ::fsync(directory.get());
    prune();
    return true;
  }

  // Newer images stay, and two in all. Of those that are not complete, the older ones never will be.
  void prune() const {
    std::error_code ignored;
    int kept = 0;
    std::vector<KeptImage> images = images_in(task_.directory);
    std::ranges::sort(images, std::greater());
    for (const KeptImage& one : images) {
      if (one <= image_ && ++kept > limits::kImages) fs::remove_all(task_.directory + "/" + name_of(one), ignored);
    }
    for (const std::string& name : names_in(task_.directory)) {
      if (!name.starts_with(kStaging)) continue;
      const auto one = wire::image_named(std::string_view(name).substr(kStaging.size()));
      if (one && *one < image_) fs::remove_all(task_.directory + "/" + name, ignored);
    }
  }

  std::chrono::milliseconds expected_time() const {
    std::uint64_t all = 0;
    for (const KeptState& state : task_.step.own) all += state.bytes;
    for (const KeptState& state : task_.step.whole) all += state.bytes;
    const auto passed = std::chrono::duration<double>(Clock::now() - began_);
    const double share = written_ == 0 ? 1 : std::max(1.0, static_cast<double>(all) / static_cast<double>(written_));
    return std::chrono::duration_cast<std::chrono::milliseconds>(passed * share);
  }

  const ImageTask& task_;
  const wire::StateFile memory_;
  const std::atomic<bool>& is_urgent_;
  KeptImage image_;
  const std::string staging_;
  const Clock::time_point began_ = Clock::now();
  std::uint64_t written_ = 0;
};

}  // namespace

std::vector<KeptStep> last_steps_of(std::span<const KeptState> kept, int workers) {
  struct Parts {
    std::map<int, KeptState> own;
    std::map<std::uint64_t, KeptState> whole;
  };
  std::map<std::pair<int, std::int64_t>, Parts> steps;
  for (const KeptState& state : kept) {
    Parts& parts = steps[{state.attempt, state.step}];
    if (state.kind == StateKind::whole) {
      parts.whole.try_emplace(state.key, state);
      continue;
    }
    const auto [own, is_new] = parts.own.try_emplace(state.rank, state);
    // The places of recent steps are soon overwritten, and those behind them later.
    if (!is_new && std::pair(state.kind, state.place) > std::pair(own->second.kind, own->second.place))
      own->second = state;
  }
  std::vector<KeptStep> results;
  for (auto entry = steps.rbegin(); entry != steps.rend(); ++entry) {
    const auto& [own, whole] = entry->second;
    if (std::ssize(own) < workers) continue;
    KeptStep result{entry->first.first, entry->first.second, own.begin()->second.world, {}, {}};
    for (const auto& [rank, state] : own) result.own.push_back(state);
    for (const auto& [key, state] : whole) result.whole.push_back(state);
    results.push_back(std::move(result));
  }
  return results;
}

std::optional<KeptStep> newest_step_of(std::span<const KeptState> kept, int workers) {
  const auto is_complete = [](const KeptStep& step) {
    return std::ranges::all_of(step.own, [&](const KeptState& own) {
      return own.kind != StateKind::early &&
             std::ranges::any_of(step.whole, [&](const KeptState& whole) { return whole.key == own.key; });
    });
  };
  std::vector<KeptStep> steps = last_steps_of(kept, workers);
  const auto newest = std::ranges::find_if(steps, is_complete);
  return newest == steps.end() ? std::nullopt : std::optional(std::move(*newest));
}

std::vector<KeptImage> images_in(const std::string& directory) {
  std::vector<KeptImage> images;
  for (const std::string& name : names_in(directory)) {
    if (const auto image = wire::image_named(name)) images.push_back(*image);
  }
  return images;
}

std::optional<std::vector<KeptImage>> images_in_time(const std::string& directory) {
  base::SideThread<std::vector<KeptImage>> reading([directory] { return images_in(directory); });
  pollfd ready{reading.ready(), POLLIN, 0};
  ::poll(&ready, 1, static_cast<int>(std::chrono::milliseconds(limits::kImageList).count()));
  return reading.result();
}

WrittenImage write_image(const ImageTask& task, const std::atomic<bool>& is_urgent) {
  return Writer(task, is_urgent).write();
}

}  // namespace ddp::launcher
