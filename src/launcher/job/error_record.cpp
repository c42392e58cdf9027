#include "launcher/job/error_record.h"

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/unique_fd.h"
#include "launcher/limits.h"
#include "wire/error_file.h"

namespace ddp::launcher {

using Json = nlohmann::json;

namespace {

// PyTorch's libraries use these words in a rank that has lost another one. Their message contains both parts. The error
// of a user's own connection contains neither.
struct LossWords {
  std::string_view library;
  std::string_view loss;
};
constexpr std::array kLossWords = {
    LossWords{"gloo/transport/", "by peer"},         // "Connection closed by peer", "Connection reset by peer"
    LossWords{"gloo/transport/", "Broken pipe"},     // the rank wrote to a peer that had ended
    LossWords{"ncclRemoteError", "remote process"},  // "… remote process exited or there was a network error"
};

bool tells_of_lost_rank(const std::string& message) {
  return std::ranges::any_of(kLossWords, [&](const LossWords& words) {
    return message.find(words.library) != std::string::npos && message.find(words.loss) != std::string::npos;
  });
}

}  // namespace

std::optional<ErrorRecord> parse_error_record(std::string_view json) {
  const Json document = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("message")) return std::nullopt;
  const Json& message = document["message"];
  const auto record_of = [](const Json& text) {
    return ErrorRecord{text.get<std::string>(), tells_of_lost_rank(text.get<std::string>())};
  };
  if (message.is_string()) return record_of(message);
  if (!message.is_object() || !message.contains("message") || !message["message"].is_string()) return std::nullopt;
  ErrorRecord record = record_of(message["message"]);
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
      if (const auto error = last_python_error(stack->get_ref<const std::string&>())) record.place = error->place;
    }
  }
  return record;
}

ErrorRecord error_record_of(const PythonError& printed) {
  ErrorRecord record{printed.message, tells_of_lost_rank(printed.text)};
  record.place = printed.place;
  return record;
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
  if (record) {
    record->written_at = std::chrono::system_clock::time_point(std::chrono::seconds(status.st_mtim.tv_sec) +
                                                               std::chrono::nanoseconds(status.st_mtim.tv_nsec));
  }
  return record;
}

}  // namespace ddp::launcher
