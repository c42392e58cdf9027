#include "launcher/run/job/error_record.h"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <ctime>

#include "base/unique_fd.h"
#include "launcher/limits.h"
#include "wire/error_file.h"

namespace ddp::launcher {

using Json = nlohmann::json;

namespace {

enum class Meaning : std::uint8_t { lost_peer, timeout, mismatch };

// A rank that has lost another one, that gave up waiting for one, or that called something else than others fails with
// a message that contains both parts. The error of a user's own connection contains no pair of them.
struct Words {
  std::string_view library;
  std::string_view words;
  Meaning meaning = Meaning::lost_peer;
};
constexpr std::array kWords = {
    // Gloo
    Words{"gloo/transport/", "by peer"},      // "Connection closed by peer", "Connection reset by peer"
    Words{"gloo/transport/", "Broken pipe"},  // the rank wrote to a peer that had ended
    Words{"gloo/transport/", "Connection refused"},
    Words{"gloo/transport/", "Connection timed out"},
    Words{"gloo/transport/", "Timed out waiting", Meaning::timeout},
    Words{"gloo/transport/", "Received data size doesn't match expected size", Meaning::mismatch},
    // NCCL and ProcessGroupNCCL
    Words{"ncclRemoteError", "remote process"},  // "… remote process exited or there was a network error"
    Words{"ncclSystemError", "by remote peer"},
    Words{"ncclSystemError", "by peer"},
    Words{"ncclSystemError", "Broken pipe"},
    Words{"ncclSystemError", "Connection refused"},
    Words{"NCCL communicator was aborted", ""},
    Words{"NCCL watchdog", "dump signal from another rank"},
    Words{"Watchdog caught collective operation timeout", "", Meaning::timeout},
    // PyTorch's store, monitored_barrier and RPC. DeepSpeed uses the same.
    Words{"DistNetworkError", "Connection was likely closed"},
    Words{"DistNetworkError", "by peer"},
    Words{"DistNetworkError", "Broken pipe"},
    Words{"DistStoreError", "wait timeout", Meaning::timeout},
    Words{"DistStoreError", "Timed out", Meaning::timeout},
    Words{"monitoredBarrier", "received errors while waiting"},
    Words{"failed to pass monitoredBarrier", "", Meaning::timeout},
    Words{"originated at tensorpipe/", ""},
    // MPI
    Words{"MPI_ERR_PROC_FAILED", ""},
    Words{"MPI_ERR_REVOKED", ""},
    Words{"MPI", "peer process has unexpectedly disconnected"},
    Words{"UCX", "reset by remote peer"},
    // Ray
    Words{"ActorDiedError", ""},
    Words{"RayActorError", ""},
    Words{"ActorUnavailableError", ""},
    Words{"NodeDiedError", ""},
    Words{"OwnerDiedError", ""},
    Words{"WorkerCrashedError", ""},
};

bool means(Meaning meaning, std::string_view message) {
  return std::ranges::any_of(kWords, [&](const Words& words) {
    return words.meaning == meaning && message.find(words.library) != std::string_view::npos &&
           message.find(words.words) != std::string_view::npos;
  });
}

bool tells_of_lost_rank(const PythonException& error) {
  return means(Meaning::lost_peer, error.text);
}

ErrorRecord record_of(const std::string& message, std::string_view text) {
  const bool is_lost = means(Meaning::lost_peer, text);
  return {.message = message,
          .is_secondary = is_lost,
          .is_mismatch = !is_lost && means(Meaning::mismatch, text),
          .is_timeout = !is_lost && means(Meaning::timeout, text)};
}

std::chrono::system_clock::time_point time_of(const timespec& time) {
  return std::chrono::system_clock::time_point(std::chrono::seconds(time.tv_sec) +
                                               std::chrono::nanoseconds(time.tv_nsec));
}

// Sets what the exceptions of a chain mean. The first one decides, because the others are its consequences. An
// exception that was handled when another rank was lost is an exception to that: it may have been unimportant.
void judge(ErrorRecord& record, const std::vector<PythonException>& chain) {
  if (chain.empty()) return;
  const bool is_group = std::ranges::any_of(chain, &PythonException::is_member);
  // The exceptions of a group are independent of each other.
  const auto own = std::ranges::find_if(chain, [&](const PythonException& error) {
    return (!is_group || error.is_member) && !tells_of_lost_rank(error);
  });
  const auto lost = std::ranges::find_if(chain, tells_of_lost_rank);
  if (lost != chain.end()) {
    record.is_secondary = !is_group || own == chain.end();
    record.had_own_error = !is_group && own < lost;
  } else if (!record.is_secondary && means(Meaning::timeout, chain.front().text)) {
    record.is_timeout = true;
  }
  if (own == chain.end() || (!is_group && !record.had_own_error)) return;
  record.message = own->message;
  record.place = own->place;
}

}  // namespace

std::optional<ErrorRecord> parse_error_record(std::string_view json) {
  const Json document = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("message")) return std::nullopt;
  const Json& message = document["message"];
  const auto printed = [](const Json& text) {
    const auto& words = text.get_ref<const std::string&>();
    return record_of(words, words);
  };
  if (message.is_string()) return printed(message);
  if (!message.is_object() || !message.contains("message") || !message["message"].is_string()) return std::nullopt;
  ErrorRecord record = printed(message["message"]);
  if (message.contains("extraInfo") && message["extraInfo"].is_object()) {
    const Json& extra = message["extraInfo"];
    if (const auto kind = extra.find(wire::kErrorKind); kind != extra.end()) {
      record.is_secondary = *kind == wire::kPeerLost;
      record.is_mismatch = *kind == wire::kMismatch;
      record.is_timeout = *kind == wire::kTimeout;
    }
    const auto peer = extra.find(wire::kErrorPeer);
    if (peer != extra.end() && peer->is_number_integer()) record.peer = peer->get<int>();
    const auto stack = extra.find("py_callstack");
    if (stack != extra.end() && stack->is_string()) {
      const auto error = last_python_error(stack->get_ref<const std::string&>());
      if (error) record.place = error->place;
      if (error && !extra.contains(wire::kErrorKind)) judge(record, error->chain);
    }
  }
  return record;
}

ErrorRecord error_record_of(const PythonError& printed) {
  ErrorRecord record = record_of(printed.message, printed.text);
  record.place = printed.place;
  judge(record, printed.chain);
  return record;
}

std::optional<ErrorRecord> error_record_of(const std::optional<PythonError>& printed, const base::ExitStatus& status) {
  if (!printed || (status.was_killed() && !status.was_killed_by(SIGABRT))) return std::nullopt;
  ErrorRecord record = error_record_of(*printed);
  if (status.was_killed() && !record.is_secondary && !record.is_mismatch && !record.is_timeout) return std::nullopt;
  record.written_at = file_time_now();  // at the latest
  return record;
}

std::chrono::system_clock::time_point file_time_now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return time_of(now);
}

std::optional<ErrorRecord> read_error_record(const std::string& path) {
  // A worker may have put anything there, for instance a FIFO, and reading that would never end.
  const base::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  std::string text(limits::kErrorFileBytes, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(got));
  auto record = parse_error_record(text);
  if (record) record->written_at = time_of(status.st_mtim);
  return record;
}

}  // namespace ddp::launcher
