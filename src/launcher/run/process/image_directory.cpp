#include "launcher/run/process/image_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "base/unique_fd.h"
#include "launcher/limits.h"
#include "launcher/run/process/state_memory.h"
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

std::vector<std::string> names_in(const std::string& directory, std::error_code& error) {
  std::vector<std::string> names;
  for (auto entry = fs::directory_iterator(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  return names;
}

std::vector<std::string> names_in(const std::string& directory) {
  std::error_code ignored;
  return names_in(directory, ignored);
}

std::vector<KeptImage> images_among(const std::vector<std::string>& names) {
  std::vector<KeptImage> images;
  for (const std::string& name : names) {
    if (const auto image = wire::image_named(name)) images.push_back(*image);
  }
  return images;
}

// Writes an image. Its functions throw what has gone wrong.
class Writer {
 public:
  Writer(const ImageTask& task, ImageProgress& progress)
      : task_(task),
        memory_(task.descriptor),
        progress_(progress),
        image_{task.job_began, task.step.attempt, task.step.step, task.step.world, false},
        staging_(task.directory + "/" + std::string(kStaging) + name_of(image_)) {}

  WrittenImage write() {
    WrittenImage result;
    try {
      result.is_complete = exists() || (write_files() && complete());
      result.newest = newest();
    } catch (const Overtaken&) {
      result.is_overtaken = true;
    } catch (const fs::filesystem_error& error) {
      result.failure = error.code().message();
    }
    if (!result.failure.empty() || result.is_overtaken) {
      std::error_code ignored;
      fs::remove_all(staging_, ignored);  // it would never be complete
    }
    result.time = expected_time(result.is_overtaken);
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
  std::optional<KeptImage> newest() const {
    std::vector<KeptImage> images = images_in(task_.directory);
    std::erase_if(images, [this](const KeptImage& one) { return one.job_began != image_.job_began; });
    return images.empty() ? std::nullopt : std::optional(std::ranges::max(images));
  }

  bool write_files() {
    fs::create_directories(task_.directory);
    if (::mkdir(staging_.c_str(), 0700) != 0 && errno != EEXIST) fail(staging_);
    for (const KeptState& own : task_.step.own) write_file(own, wire::own_file_of(own.rank));
    for (const KeptState& whole : task_.step.whole) write_file(whole, wire::whole_file_of(whole.key));
    return true;
  }

  // The first launcher that begins with a key writes it for all nodes. At the end of a job, none waits for another one,
  // which may have been killed.
  void write_file(const KeptState& state, const std::string& name) {
    const std::string path = staging_ + "/" + name;
    const std::string part =
        path + std::string(kPart) + (progress_.is_urgent ? "." + base::hex64(base::random64()) : "");
    if (::access(path.c_str(), F_OK) == 0) return;
    const base::UniqueFd file(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file && errno == EEXIST) return;
    if (!file) fail(part);
    const auto before = memory_.entry(state.area, state.place);
    if (!before || kept_state_of(*before, state.area, state.place) != state) throw Overtaken();
    write_entry(file.get(), part, *before);
    copy(file.get(), part, state);
    const auto after = memory_.entry(state.area, state.place);
    if (!after || after->check != before->check) throw Overtaken();
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
      ++progress_.pieces;
      if (!progress_.is_urgent)
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
    sync(staging_);
    const std::string path = task_.directory + "/" + name_of(image_);
    if (::rename(staging_.c_str(), path.c_str()) != 0) return errno == ENOENT || errno == ENOTEMPTY;
    sync(task_.directory);
    prune();
    return true;
  }

  static void sync(const std::string& path) {
    const base::UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory) ::fsync(directory.get());
  }

  // Newer images stay, and images of later steps, from which this job may not have gone on. Of the others, two stay. Of
  // those that are not complete, the older ones never will be.
  void prune() const {
    std::error_code ignored;
    int kept = 0;
    std::vector<KeptImage> images = images_in(task_.directory);
    std::ranges::sort(images, std::greater());
    for (const KeptImage& one : images) {
      if (one > image_ || one.step > image_.step || ++kept <= limits::kImages) continue;
      // What has a name is complete, also if this launcher is killed.
      const std::string hidden = task_.directory + "/" + std::string(kStaging) + name_of(one);
      fs::rename(task_.directory + "/" + name_of(one), hidden, ignored);
      fs::remove_all(hidden, ignored);
    }
    for (const std::string& name : names_in(task_.directory)) {
      if (!name.starts_with(kStaging)) continue;
      const auto one = wire::image_named(std::string_view(name).substr(kStaging.size()));
      if (one && *one < image_) fs::remove_all(task_.directory + "/" + name, ignored);
    }
  }

  // If the write was not finished, its speed says how long it would have taken.
  std::chrono::milliseconds expected_time(bool is_overtaken) const {
    std::uint64_t all = 0;
    for (const KeptState& state : task_.step.own) all += state.bytes;
    for (const KeptState& state : task_.step.whole) all += state.bytes;
    const auto passed = std::chrono::duration<double>(Clock::now() - began_);
    const bool is_known = !is_overtaken || written_ == 0;
    const double share = is_known ? 1 : std::max(1.0, static_cast<double>(all) / static_cast<double>(written_));
    return std::chrono::duration_cast<std::chrono::milliseconds>(passed * share);
  }

  const ImageTask& task_;
  const wire::StateFile memory_;
  ImageProgress& progress_;
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
  return images_among(names_in(directory));
}

base::Result<std::vector<KeptImage>> list_images(const std::string& directory) {
  std::error_code error;
  const std::vector<std::string> names = names_in(directory, error);
  if (error && error != std::errc::no_such_file_or_directory) return base::Failure{error.message()};
  return images_among(names);
}

WrittenImage write_image(const ImageTask& task, ImageProgress& progress) {
  return Writer(task, progress).write();
}

}  // namespace ddp::launcher
