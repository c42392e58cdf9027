// A file counts as new if it has changed since before the request. Its time is not compared with this node's clock: it
// may be on a file server, which has another clock and perhaps counts whole seconds.
#include "launcher/run/watchdog/evidence/flight_recorder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "base/sigpipe_guard.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "launcher/run/stacks/function_name.h"

namespace ddp::launcher {
namespace {

constexpr auto kPollPause = std::chrono::milliseconds(50);  // a file that does not change for this long is complete
constexpr std::size_t kPathBytes = 4096;

// Describes a file. All members are 0 if there is none.
struct FileSample {
  std::uint64_t inode = 0;
  std::int64_t bytes = 0;
  std::int64_t seconds = 0;  // time of the last change
  std::int64_t nanoseconds = 0;

  friend bool operator==(const FileSample&, const FileSample&) = default;
};

FileSample sample_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return {status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

// Describes one of the files that a rank may write.
struct File {
  std::string stem;
  std::string path;
  FileSample before;
  FileSample last;
};

struct Recorder {
  int rank = 0;
  std::vector<File> files;
  std::string trouble;            // why it was not asked; empty if it was
  const File* written = nullptr;  // the complete file among `files`, or null
  const File* growing = nullptr;  // a file among `files` that still grows, or null
};

// Collects the ranks to which the same text applies.
struct Remark {
  std::string what;
  std::vector<int> ranks;
};

void add_remark(std::vector<Remark>& remarks, const std::string& what, int rank) {
  auto same = std::ranges::find(remarks, what, &Remark::what);
  if (same == remarks.end()) same = remarks.insert(same, {what, {}});
  same->ranks.push_back(rank);
}

std::optional<std::string> value_of(std::span<const std::string> environment, std::string_view name) {
  for (std::size_t i = environment.size(); i > 0; --i) {
    const std::string& entry = environment[i - 1];
    if (entry.starts_with(name) && entry.substr(name.size(), 1) == "=") return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

std::string nobody_reads(const std::string& shown) {
  return "no process reads " + shown + ": the worker has exited or no longer records";
}

// `shown` is the path for messages. Returns why the rank could not be asked, or an empty text if it was asked.
std::string ask(const std::string& path, const std::string& shown) {
  const base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!fd && errno == ENXIO) return nobody_reads(shown);
  if (!fd && errno == ENOENT) {
    return "no pipe " + shown + " (TORCH_NCCL_TRACE_BUFFER_SIZE is 0, no NCCL group yet, or the worker has exited)";
  }
  if (!fd && errno == ELOOP) return shown + " is a symbolic link, not a pipe";
  if (!fd) return "cannot open the pipe " + shown + ": " + std::strerror(errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISFIFO(status.st_mode)) return shown + " is not a pipe";
  const base::SigpipeGuard guard;  // the reader may end at this moment
  constexpr std::string_view kAnything = "1\n";
  if (::write(fd.get(), kAnything.data(), kAnything.size()) > 0) return "";
  return errno == EPIPE ? nobody_reads(shown) : "cannot write to the pipe " + shown + ": " + std::strerror(errno);
}

// Returns whether nothing more is expected of the recorder.
bool is_settled(Recorder& recorder) {
  recorder.growing = nullptr;
  for (File& file : recorder.files) {
    const FileSample before = std::exchange(file.last, sample_file(file.path));
    if (file.last.bytes == 0 || file.last == file.before) continue;
    if (file.last == before) {
      recorder.written = &file;
      return true;
    }
    recorder.growing = &file;
  }
  return false;
}

std::vector<Recorder> ask_all(const FlightRecorders& recorders, std::span<const int> ranks) {
  std::vector<int> ascending(ranks.begin(), ranks.end());
  std::ranges::sort(ascending);
  ascending.erase(std::unique(ascending.begin(), ascending.end()), ascending.end());
  const std::string shown = frame_text(recorders.pipes, kPathBytes) + "<rank>.pipe";
  std::vector<Recorder> asked;
  for (const int rank : ascending) {
    Recorder& recorder = asked.emplace_back();
    recorder.rank = rank;
    for (const std::string& stem : recorders.stems) {
      const std::string path = stem + std::to_string(rank);
      const FileSample now = sample_file(path);
      recorder.files.push_back({stem, path, now, now});
    }
    recorder.trouble = ask(recorders.pipes + std::to_string(rank) + ".pipe", shown);
  }
  return asked;
}

void wait_for_files(std::vector<Recorder>& recorders, net::Deadline deadline, const std::function<void()>& pause) {
  std::vector<Recorder*> awaited;
  for (Recorder& recorder : recorders) {
    if (recorder.trouble.empty()) awaited.push_back(&recorder);
  }
  while (true) {
    std::erase_if(awaited, [](Recorder* recorder) { return is_settled(*recorder); });
    // With a shorter pause, a file that still grows would seem complete.
    if (awaited.empty() || std::chrono::steady_clock::now() + kPollPause > deadline) return;
    pause ? pause() : std::this_thread::sleep_for(kPollPause);
  }
}

std::string what_is_missing(const Recorder& recorder) {
  if (!recorder.trouble.empty()) return recorder.trouble;
  if (recorder.growing != nullptr) {
    return "did not finish writing " + frame_text(recorder.growing->stem, kPathBytes) + "<rank> in time";
  }
  return "was asked, but wrote no file in time (PyTorch may need longer for its stacks; with "
         "TORCH_NCCL_DUMP_ON_TIMEOUT=0 it reads its pipe only every few minutes)";
}

}  // namespace

std::optional<FlightRecorders> find_flight_recorders(std::span<const std::string> environment) {
  const auto pipes = value_of(environment, "TORCH_NCCL_DEBUG_INFO_PIPE_FILE");
  if (!pipes || pipes->empty()) return std::nullopt;
  FlightRecorders recorders{*pipes, {}};
  // Older versions of PyTorch know only the second variable.
  for (const std::string_view name : {"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}) {
    if (const auto stem = value_of(environment, name); stem && std::ranges::count(recorders.stems, *stem) == 0) {
      recorders.stems.push_back(*stem);
    }
  }
  if (!recorders.stems.empty()) return recorders;
  // These are the defaults of PyTorch's versions, the latest version first.
  const std::string in_cache = "/torch/comm_lib_trace_rank_";
  if (const auto cache = value_of(environment, "XDG_CACHE_HOME")) recorders.stems.push_back(*cache + in_cache);
  recorders.stems.push_back(value_of(environment, "HOME").value_or("/tmp") + "/.cache" + in_cache);
  recorders.stems.emplace_back("/tmp/nccl_trace_rank_");
  return recorders;
}

EvidenceSource ask_flight_recorders(const FlightRecorders& recorders, std::span<const int> ranks,
                                    net::Deadline deadline, const std::function<void()>& pause) {
  std::vector<Recorder> asked = ask_all(recorders, ranks);
  wait_for_files(asked, deadline, pause);
  EvidenceSource source{"flight recorder", {}, {}, {}};
  std::vector<Remark> written;
  std::vector<Remark> missing;
  for (const Recorder& recorder : asked) {
    if (recorder.written == nullptr) {
      add_remark(missing, what_is_missing(recorder), recorder.rank);
      continue;
    }
    const auto bytes = static_cast<std::uint64_t>(recorder.written->last.bytes);
    source.text += "rank " + std::to_string(recorder.rank) + ": " + recorder.written->path + " (" +
                   base::human_bytes(bytes) + ")\n";
    add_remark(written, frame_text(recorder.written->stem, kPathBytes) + "<rank>", recorder.rank);
  }
  std::vector<std::string> places;
  for (const Remark& place : written) places.push_back(base::ranks_text(place.ranks) + ": " + place.what);
  if (!places.empty()) source.essence.push_back("files of " + base::join(places, ", of "));
  for (const Remark& reason : missing) source.missing.push_back(base::ranks_text(reason.ranks) + ": " + reason.what);
  return source;
}

}  // namespace ddp::launcher
