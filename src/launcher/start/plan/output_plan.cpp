#include "launcher/start/plan/output_plan.h"

#include <algorithm>
#include <set>

#include "base/exit_code.h"
#include "base/text.h"
#include "launcher/start/facts/node_facts.h"
#include "launcher/start/plan/launch_plan.h"

namespace ddp::launcher {
namespace {

constexpr const char* kNoFiles = "/dev/null";
constexpr const char* kDefaultLogs = "./ddp-logs";
constexpr const char* kNativeTag = "[${rank}] ";
constexpr const char* kGatheredTag = "[${node} ${rank}] ";
constexpr const char* kTorchTag = "[${role}${local_rank}]:";

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// torchrun's template has ${role_name} where ddplaunch has ${role}. The other names are the same.
std::string torch_tag(const NodeFacts& facts) {
  auto asked = find_variable(facts.environment, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
  if (!asked || asked->empty()) return kTorchTag;
  replace_all(*asked, "$role_name", "${role}");
  replace_all(*asked, "${role_name}", "${role}");
  replace_all(*asked, "$local_rank", "${local_rank}");
  replace_all(*asked, "$rank", "${rank}");
  replace_all(*asked, "$$", "$");
  return *asked;
}

RunFiles choose_files(const Options& options, const NodeFacts& facts) {
  using Kind = RunFiles::Kind;
  if (options.log_dir == kNoFiles) return {Kind::none, ""};
  if (options.log_dir) return {Kind::kept, *options.log_dir};
  const bool files = options.redirects.any() || options.tee.any() || !options.stdout_filters.empty() ||
                     !options.stderr_filters.empty();
  if (!files) return {};
  if (options.compatibility_mode == CompatibilityMode::native) return {Kind::kept, kDefaultLogs};
  const std::string temporary = find_variable(facts.environment, "TMPDIR").value_or("");
  return {Kind::kept, (temporary.empty() ? "/tmp" : temporary) + "/torchelastic_" + facts.random_id.substr(0, 8)};
}

void note_unknown_ranks(const std::string& option, const std::set<int>& named, int workers,
                        std::vector<std::string>& notes) {
  std::vector<int> unknown;
  std::ranges::copy_if(named, std::back_inserter(unknown), [&](int rank) { return rank >= workers; });
  if (unknown.empty()) return;
  notes.push_back(option + " names local " + base::ranks_text(unknown) + ", but there " +
                  base::plural(workers, "is ", "are ") + base::counted(workers, "worker"));
}

std::set<int> named_ranks(const StreamSelection& selection) {
  std::set<int> ranks;
  for (const auto& [rank, streams] : selection.by_local_rank) ranks.insert(rank);
  return ranks;
}

// Returns the text before each line of a worker's console output, or an empty string if there is none.
std::string choose_tag(const Options& options, const NodeFacts& facts, bool has_several_ranks) {
  if (options.tag) return *options.tag;
  if (options.compatibility_mode != CompatibilityMode::native) return torch_tag(facts);
  if (options.gather_output) return kGatheredTag;
  return has_several_ranks ? kNativeTag : "";
}

}  // namespace

bool wants_color(Color choice, const std::vector<std::string>& environment, bool is_terminal) {
  if (choice != Color::automatic) return choice == Color::always;
  const bool unwanted = !find_variable(environment, "NO_COLOR").value_or("").empty() ||
                        find_variable(environment, "TERM").value_or("") == "dumb";
  return is_terminal && !unwanted;
}

std::optional<StartFailure> check_shown_ranks(const Options& options, const LaunchPlan& plan) {
  const std::vector<int>& shown = options.console_local_ranks;
  const bool may_be_elsewhere = plan.nodes.several() || options.compatibility_mode != CompatibilityMode::native;
  if (shown.empty() || may_be_elsewhere || std::ranges::any_of(shown, [&](int rank) { return rank < plan.workers; })) {
    return std::nullopt;
  }
  return StartFailure{base::kExitUsage, "--local-ranks-filter=" + base::rank_list(shown) + " matches none of the " +
                                            base::counted(plan.workers, "worker") +
                                            ", so that no output would be shown. Local ranks count from 0."};
}

void plan_output(const Options& options, const NodeFacts& facts, LaunchPlan& plan) {
  const int workers = plan.workers;
  const bool native = options.compatibility_mode == CompatibilityMode::native;
  plan.files = choose_files(options, facts);
  note_unknown_ranks("--redirects", named_ranks(options.redirects), workers, plan.notes);
  note_unknown_ranks("--tee", named_ranks(options.tee), workers, plan.notes);
  const std::set<int> shown(options.console_local_ranks.begin(), options.console_local_ranks.end());
  note_unknown_ranks("--local-ranks-filter", shown, workers, plan.notes);

  const bool selected = options.redirects.any() || options.tee.any();
  const bool filtered = !options.stdout_filters.empty() || !options.stderr_filters.empty();
  const bool no_files = plan.files.kind == RunFiles::Kind::none;
  if (no_files && (selected || filtered)) {
    plan.notes.emplace_back(
        "--log-dir=/dev/null: no files are written; --redirects, --tee and the filters have no effect");
  }
  OutputPlan& output = plan.output;
  output.tag = choose_tag(options, facts, workers > 1 || plan.nodes.several());
  output.collapse = options.collapse.value_or(native && workers > 1 && !output.tag.empty());
  output.lossless = options.lossless;
  output.color = wants_color(options.color, facts.environment, facts.console_is_terminal);
  if (!no_files) {
    output.stdout_filters = options.stdout_filters;
    output.stderr_filters = options.stderr_filters;
  }
  // With a log folder alone, all output goes to files and to the console. torchrun writes only the error files there.
  const bool everything = native && options.log_dir && !selected;
  const bool tag_always = native || options.tag.has_value();
  for (int rank = 0; rank < workers; ++rank) {
    const bool visible = shown.empty() || shown.contains(rank);
    const int tee = no_files ? 0 : everything ? 3 : options.tee.of(rank);
    const int redirect = no_files ? 0 : options.redirects.of(rank);
    const auto stream = [&](int mask) {
      const bool both = (tee & mask) != 0;
      const bool file_only = !both && (redirect & mask) != 0;
      return StreamPlan{visible && !file_only, both || file_only, tag_always || both};
    };
    output.workers.push_back({stream(StreamSelection::kStdout), stream(StreamSelection::kStderr)});
  }
}

}  // namespace ddp::launcher
