#include "launcher/see/top/view_protocol.h"

#include <nlohmann/json.hpp>

#include <array>
#include <optional>
#include <utility>

#include "launcher/see/view/job_snapshot.h"

namespace ddp::launcher {
namespace {

using AnyJson = nlohmann::json;

constexpr std::array<std::string_view, 4> kWishes = {"snapshot", "stacks", "output", "no_output"};
constexpr std::string_view kSnapshotStart = "{\"snapshot\":";
constexpr int kMostLevels = 16;  // of an answer

bool has_rank(ViewWish wish) {
  return wish == ViewWish::stacks || wish == ViewWish::output;
}

std::string message(const AnyJson& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/true, AnyJson::error_handler_t::replace) + "\n";
}

std::string lines_message(const char* kind, int rank, std::span<const std::string> lines) {
  return message({{kind, {{"rank", rank}, {"lines", std::vector<std::string>(lines.begin(), lines.end())}}}});
}

base::Result<ViewAnswer> snapshot_answer(std::string_view text) {
  auto snapshot = read_snapshot(text);
  if (!snapshot) return snapshot.error();
  ViewAnswer answer;
  answer.kind = ViewAnswer::Kind::snapshot;
  answer.snapshot = std::move(snapshot).value();
  return answer;
}

std::optional<int> rank_in(const AnyJson& object) {
  const auto rank = object.find("rank");
  if (rank == object.end() || !rank->is_number_integer() || !std::in_range<int>(rank->get<std::int64_t>())) return {};
  return rank->get<int>() < 0 ? std::nullopt : std::optional(rank->get<int>());
}

base::Result<ViewAnswer> lines_answer(ViewAnswer::Kind kind, const AnyJson& member) {
  if (!member.is_object() || !rank_in(member)) return base::Failure{"an answer of the launcher names no rank"};
  ViewAnswer answer;
  answer.kind = kind;
  answer.rank = *rank_in(member);
  const auto lines = member.find("lines");
  if (lines == member.end() || !lines->is_array()) return answer;
  for (const AnyJson& line : *lines) {
    if (line.is_string()) answer.lines.push_back(line.get<std::string>());
  }
  return answer;
}

}  // namespace

std::string request_line(const ViewRequest& request) {
  AnyJson json = {{"want", kWishes.at(static_cast<std::size_t>(request.want))}};
  if (has_rank(request.want)) json["rank"] = request.rank;
  return message(json);
}

std::string snapshot_line(std::string_view json) {
  return std::string(kSnapshotStart).append(json).append("}\n");
}

std::string stacks_line(int rank, std::span<const std::string> lines) {
  return lines_message("stacks", rank, lines);
}

std::string output_line(int rank, std::span<const std::string> lines) {
  return lines_message("output", rank, lines);
}

std::string error_line(std::string_view text) {
  return message({{"error", text}});
}

base::Result<ViewRequest> read_request(std::string_view line) {
  const AnyJson json = AnyJson::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return base::Failure{"a request is a JSON object on one line"};
  const auto want = json.find("want");
  for (std::size_t wish = 0; wish < kWishes.size(); ++wish) {
    if (want == json.end() || *want != kWishes[wish]) continue;
    ViewRequest request{static_cast<ViewWish>(wish), 0};
    if (!has_rank(request.want)) return request;
    const auto rank = rank_in(json);
    if (!rank) return base::Failure{"this request needs a rank"};
    request.rank = *rank;
    return request;
  }
  return base::Failure{"\"want\" is none of snapshot, stacks, output and no_output"};
}

base::Result<ViewAnswer> read_answer(std::string_view line) {
  // A snapshot may have megabytes, and is parsed only once.
  if (line.starts_with(kSnapshotStart) && line.ends_with('}')) {
    return snapshot_answer(line.substr(kSnapshotStart.size(), line.size() - kSnapshotStart.size() - 1));
  }
  // An answer has few levels. A value of thousands of levels would exhaust the stack, so deeper ones are left out.
  const auto is_kept = [](int depth, AnyJson::parse_event_t, const AnyJson&) { return depth < kMostLevels; };
  const AnyJson json = AnyJson::parse(line, is_kept, /*allow_exceptions=*/false);
  if (!json.is_object() || json.size() != 1) return base::Failure{"an answer of the launcher is not valid"};
  const std::string& name = json.begin().key();
  const AnyJson& member = json.begin().value();
  if (name == "snapshot") return snapshot_answer(member.dump(-1, ' ', true, AnyJson::error_handler_t::replace));
  if (name == "stacks") return lines_answer(ViewAnswer::Kind::stacks, member);
  if (name == "output") return lines_answer(ViewAnswer::Kind::output, member);
  if (name == "error" && member.is_string()) {
    ViewAnswer answer;
    answer.lines.push_back(member.get<std::string>());
    return answer;
  }
  return base::Failure{"an answer of the launcher is of an unknown kind"};
}

}  // namespace ddp::launcher
