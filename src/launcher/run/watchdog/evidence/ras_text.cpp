#include "launcher/run/watchdog/evidence/ras_text.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kHeading = "  Communicator ranks have different ";
constexpr std::string_view kHeadingEnd = " operation counts";

std::optional<std::uint64_t> leading_number(std::string_view text, int base = 10) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc{} && end != text.data() ? std::optional(number) : std::nullopt;
}

std::optional<std::uint64_t> number_behind(std::string_view line, std::string_view words, int base = 10) {
  const std::size_t at = line.find(words);
  return at == std::string_view::npos ? std::nullopt : leading_number(line.substr(at + words.size()), base);
}

// Returns how many operations a line says that one or more ranks have launched.
std::optional<std::uint64_t> launched_in(std::string_view line) {
  if (line.find("not launched any operations") != std::string_view::npos) return 0;
  return number_behind(line, "launched up to operation ");
}

// Reads what follows "#0-1 (0123456789abcdef) MISMATCH":
//
//     Communicator ranks have different AllReduce operation counts
//     30 ranks have launched up to operation 8
//     2 ranks have launched up to operation 7
//     Rank 4 -- GPU 0 managed by process 4711 on node 10.0.0.1
//     Rank 5 -- GPU 1 managed by process 4712 on node 10.0.0.1
class Mismatch {
 public:
  explicit Mismatch(std::uint64_t hash) { communicator_.hash = hash; }

  void add(std::string_view line) {
    if (line.starts_with(kHeading)) return begin(line);
    if (function_.empty()) return;
    const auto launched = launched_in(line);
    const auto rank = number_behind(line, "  Rank ");
    if (rank) {
      if (launched) begin_count(*launched, 1);
      add_member(*rank, number_behind(line, "managed by process "));
    } else if (launched && line.starts_with("  ")) {
      begin_count(*launched, leading_number(line.substr(2)).value_or(0));
    }
  }

  RasCommunicator take() {
    end_function();
    if (is_known_ && !communicator_.unlisted->empty()) return std::move(communicator_);
    return {communicator_.hash, 0, {}, std::map<std::string, std::uint64_t>{}};
  }

 private:
  void begin(std::string_view line) {
    end_function();
    const bool counts = counts_of_ras_begin(line);  // others differ in their status
    line.remove_prefix(kHeading.size());
    function_ = counts ? line.substr(0, line.size() - kHeadingEnd.size()) : "";
    members_ = 0;
  }

  // So many ranks have launched that much. Those that differ from most others are listed.
  void begin_count(std::uint64_t launched, std::uint64_t ranks) {
    end_count();
    launched_ = launched;
    pending_ = ranks;
    members_ += ranks;
  }

  void end_count() {
    if (pending_ == 0) return;
    const bool is_first = communicator_.unlisted->try_emplace(function_, launched_).second;
    is_known_ = is_known_ && is_first && !is_listed_;
    pending_ = 0;
    is_listed_ = false;
  }

  void end_function() {
    if (function_.empty()) return;
    end_count();
    constexpr std::uint64_t kMost = INT32_MAX;
    const int size = static_cast<int>(std::min(members_, kMost));
    is_known_ = is_known_ && (communicator_.size == 0 || communicator_.size == size);
    communicator_.size = size;
    // If all are listed, no member has this count.
    communicator_.unlisted->try_emplace(function_, 0);
  }

  void add_member(std::uint64_t rank, std::optional<std::uint64_t> pid) {
    if (!pid || *pid == 0 || *pid > INT32_MAX || rank > INT32_MAX || pending_ == 0) {
      is_known_ = false;
      return;
    }
    auto& members = communicator_.members;
    auto member = std::ranges::find(members, static_cast<int>(rank), &RasMember::rank);
    if (member == members.end()) {
      member = members.insert(member, {static_cast<int>(rank), static_cast<pid_t>(*pid), {}});
    }
    member->launched[function_] = launched_;
    --pending_;
    is_listed_ = pending_ > 0;
  }

  RasCommunicator communicator_{0, 0, {}, std::map<std::string, std::uint64_t>{}};
  std::string function_;        // of the lines that follow
  std::uint64_t members_ = 0;   // ranks that were counted in this function
  std::uint64_t launched_ = 0;  // what the ranks that follow have launched
  std::uint64_t pending_ = 0;   // how many of them have not been listed
  bool is_listed_ = false;      // some of them have been, and some have not
  bool is_known_ = true;        // it is known what each member has launched
};

}  // namespace

bool is_ras_text(std::string_view status) {
  return status.starts_with("NCCL version ");
}

bool counts_of_ras_begin(std::string_view line) {
  return line.starts_with(kHeading) && line.ends_with(kHeadingEnd);
}

RasStatus read_ras_text(std::string_view text) {
  RasStatus status;
  std::optional<Mismatch> mismatch;
  const auto end = [&] {
    if (mismatch) status.push_back(mismatch->take());
    mismatch.reset();
  };
  while (!text.empty()) {
    const std::string_view line = base::take_line(text);
    if (!line.starts_with('#')) {
      if (mismatch) mismatch->add(line);
      continue;
    }
    end();
    const auto hash = number_behind(line, " (", 16);
    if (hash && *hash != 0 && line.ends_with(") MISMATCH")) mismatch.emplace(*hash);
  }
  end();
  return status;
}

}  // namespace ddp::launcher
