#include "launcher/run/remote/host_plan.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>

#include "base/exit_code.h"
#include "base/printable.h"
#include "base/secrets.h"
#include "base/text.h"
#include "launcher/run/remote/remote_texts.h"
#include "launcher/start/plan/cluster_options.h"
#include "launcher/start/plan/output_plan.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

using base::Failure;
using base::Result;

namespace env = wire::env;

constexpr std::string_view kForwarded[] = {"DDP_*",   "NCCL_*", "GLOO_*",          "UCX_*",      "OMP_*",
                                           "TORCH_*", "PATH",   "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV"};
// These variables belong to the job in which this launcher runs, if there is one, and not to the job that it starts.
constexpr std::string_view kOfThisJob[] = {env::kAttempt, env::kLastFailure, env::kStatusPage};

std::string_view name_of(std::string_view line) {
  return line.substr(0, line.find('='));
}

bool matches(std::string_view name, std::string_view pattern) {
  if (!pattern.ends_with('*')) return name == pattern;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

bool is_forwarded(std::string_view name) {
  if (std::find(std::begin(kOfThisJob), std::end(kOfThisJob), name) != std::end(kOfThisJob)) return false;
  return std::any_of(std::begin(kForwarded), std::end(kForwarded),
                     [&](std::string_view pattern) { return matches(name, pattern); });
}

void set(std::vector<std::string>& lines, std::string_view line) {
  if (name_of(line) == env::kAuthToken) return;
  std::erase_if(lines, [&](const std::string& other) { return name_of(other) == name_of(line); });
  lines.emplace_back(line);
}

Result<std::vector<HostEntry>> hosts_of(const Options& options, const ControllerFacts& facts) {
  if (!options.hosts.empty()) return options.hosts;
  auto hosts = parse_host_file(facts.host_file);
  if (!hosts) return Failure{host_file_mistake_text(options.host_file, hosts.error().message)};
  if (hosts.value().empty()) return Failure{host_file_empty_text(options.host_file)};
  return hosts;
}

bool has_word(const Options& options, const std::string& start) {
  return std::ranges::any_of(options.host_words, [&](const std::string& word) { return word.starts_with(start); });
}

// Returns which options contradict each other, or an empty string if there is no contradiction.
std::string contradiction(const Options& options, const ControllerFacts& facts, int hosts) {
  const std::string option = options.hosts.empty() ? "--hostfile" : "--hosts";
  const bool several_here = facts.cluster && facts.cluster->node_count.value_or(1) > 1;
  const bool starts_others = several_here && !is_allocation_only(*facts.cluster);
  const bool counts_differ =
      has_word(options, "--nnodes=") && (options.min_nodes != hosts || options.max_nodes != hosts);
  const struct {
    bool is;
    std::string text;
  } kRows[] = {
      {counts_differ, other_node_count_text(option, hosts)},
      {options.node_rank.has_value(), with_node_rank_text(option)},
      {options.standalone, with_standalone_text(option)},
      {!options.local_addr.empty() && hosts > 1, with_local_addr_text(option)},
      {options.stdin_local_rank.has_value(), with_stdin_text(option)},
      {starts_others,
       starts_others ? within_scheduler_text(option, facts.cluster->scheduler, facts.cluster->derived) : ""},
  };
  for (const auto& row : kRows) {
    if (row.is) return row.text;
  }
  return "";
}

// Returns the name without the user's name.
std::string address_of(const std::string& host) {
  return host.substr(host.find('@') + 1);
}

std::vector<std::string> first_words(const Options& options) {
  if (options.compatibility_mode == CompatibilityMode::torchrun) return {"torchrun"};
  if (options.compatibility_mode == CompatibilityMode::torch_launch) return {"ddplaunch", "launch"};
  if (!options.subcommand.empty()) return {"ddplaunch", options.subcommand};
  return {"ddplaunch"};
}

// Returns the command line of one host's launcher. Options that this launcher adds come last and take precedence. Some
// of them are added only if the user has not given them.
std::vector<std::string> words_of(const Options& options, const ControllerFacts& facts,
                                  const std::vector<HostEntry>& hosts, std::size_t rank) {
  const std::string job = options.run_id.empty() ? facts.job_id : options.run_id;
  std::vector<std::string> words = first_words(options);
  if (options.compatibility_mode == CompatibilityMode::native && hosts.size() > 1 && !options.tag)
    words.emplace_back("--tag=[${rank}] ");
  base::append(words, options.host_words);
  const bool is_color_wanted = wants_color(options.color, facts.environment, facts.console_is_terminal);
  if (options.color == Color::automatic && is_color_wanted) words.emplace_back("--color=always");
  if (hosts[rank].workers) words.push_back("--nproc-per-node=" + std::to_string(*hosts[rank].workers));
  words.push_back("--nnodes=" + std::to_string(hosts.size()));
  words.push_back("--node-rank=" + std::to_string(rank));
  if (options.run_id.empty()) words.push_back("--rdzv-id=" + job);
  if (hosts.size() > 1 && options.rdzv_endpoint.empty()) {
    if (options.master_addr.empty()) words.push_back("--master-addr=" + address_of(hosts.front().name));
    if (options.master_port.value_or(0) == 0) words.push_back("--master-port=" + std::to_string(port_of_job(job)));
  }
  words.emplace_back("--");
  // The host's launcher finds the benchmark's program itself.
  words.insert(words.end(), options.command.begin() + (options.subcommand == "bench" ? 1 : 0), options.command.end());
  return words;
}

std::vector<std::string> ssh_of(const Options& options, const std::string& host) {
  std::vector<std::string> words = base::words(options.ssh);
  // If ssh would have to ask for a password, it fails at once. Nothing else of the user's configuration is changed.
  words.insert(words.end(), {"-o", "BatchMode=yes", host});
  return words;
}

std::vector<std::string> quoted_words(const std::vector<std::string>& words) {
  std::vector<std::string> texts;
  for (const std::string& word : words) texts.push_back(base::shell_quoted(word));
  return texts;
}

}  // namespace

base::Result<std::vector<std::string>> forwarded_environment(std::span<const std::string> environment,
                                                             std::span<const std::string> requests) {
  std::vector<std::string> lines;
  for (const std::string& line : environment) {
    if (is_forwarded(name_of(line))) set(lines, line);
  }
  for (const std::string& request : requests) {
    if (request.find('=') != std::string::npos) {
      set(lines, request);
      continue;
    }
    bool found = request.ends_with('*');
    for (const std::string& line : environment) {
      if (!matches(name_of(line), request)) continue;
      found = true;
      set(lines, line);
    }
    if (!found) return base::Failure{no_variable_text(request)};
  }
  return lines;
}

Result<HostPlan, StartFailure> make_host_plan(const Options& options, const ControllerFacts& facts) {
  const auto mistake = [](const std::string& text) { return StartFailure{base::kExitUsage, text}; };
  if (!facts.failure.empty()) return mistake(facts.failure);
  const auto hosts = hosts_of(options, facts);
  if (!hosts) return mistake(hosts.error().message);
  const auto count = static_cast<int>(hosts.value().size());
  if (const std::string text = contradiction(options, facts, count); !text.empty()) return mistake(text);
  auto environment = forwarded_environment(facts.environment, options.forwarded);
  if (!environment) return mistake(environment.error().message);

  HostPlan plan;
  plan.options = options;
  LaunchRequest request;
  request.nonce = facts.nonce;
  request.controller = facts.host_name;
  request.directory = facts.directory;
  request.environment = std::move(environment).value();
  // Other nodes cannot reach the store of a job of one node, and an open store accepts every client.
  const bool needs_token = count > 1 && !options.store_open;
  request.token = facts.token.empty() && needs_token ? facts.new_token : facts.token;
  const std::string launcher =
      base::shell_quoted(options.remote_launcher.empty() ? facts.executable : options.remote_launcher);
  for (std::size_t rank = 0; rank < hosts.value().size(); ++rank) {
    request.host = hosts.value()[rank].name;
    request.words = words_of(options, facts, hosts.value(), rank);
    plan.starts.push_back({request.host, ssh_of(options, request.host), launcher, request});
  }
  return plan;
}

std::vector<std::string> ssh_command(const HostStart& start) {
  std::vector<std::string> words = start.ssh;
  words.insert(words.end(), {"--", "exec " + start.launcher + " on-host"});
  return words;
}

std::string describe(const HostPlan& plan) {
  const LaunchRequest& request = plan.starts.front().request;
  std::vector<std::string> names;
  for (const std::string& line : request.environment) names.push_back(line.substr(0, line.find('=')));
  std::string text = "hosts        " + std::to_string(plan.starts.size()) + "\n";
  text += "directory    " + base::printable(request.directory) + "\n";
  text += "environment  " + (names.empty() ? "nothing" : base::join(names, " ")) + "\n";
  text +=
      "token        " + std::string(request.token.empty() ? "none" : "given over ssh, to these launchers alone") + "\n";
  for (const HostStart& start : plan.starts) {
    text += "\n" + base::printable(start.host) + "\n";
    text += "  ssh        " + base::printable(base::join(quoted_words(ssh_command(start)), " ")) + "\n";
    text += "  there      " +
            base::printable(base::join(quoted_words(base::without_secrets(start.request.words)), " ")) + "\n";
  }
  return text;
}

std::string describe_json(const HostPlan& plan) {
  using OrderedJson = nlohmann::ordered_json;
  OrderedJson hosts = OrderedJson::array();
  for (const HostStart& start : plan.starts) {
    hosts.push_back(OrderedJson{
        {"host", start.host}, {"ssh", ssh_command(start)}, {"words", base::without_secrets(start.request.words)}});
  }
  const LaunchRequest& request = plan.starts.front().request;
  const OrderedJson json{{"directory", request.directory},
                         {"environment", base::without_secrets(request.environment)},
                         {"has_token", !request.token.empty()},
                         {"hosts", hosts}};
  return json.dump(2, ' ', /*ensure_ascii=*/true, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace ddp::launcher
