#include "launcher/cli/settings.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "launcher/cli/values.h"
#include "launcher/facts/cluster_env.h"
#include "store/server/store_limits.h"
#include "wire/fault.h"

namespace ddp::launcher {
namespace {

using Mistake = std::optional<std::string>;
using Set = std::function<Mistake(Options&, const std::string&)>;

template <typename Target, typename T>
Mistake assign_parsed(Target& target, base::Result<T> parsed) {
  if (!parsed) return parsed.error().message;
  target = std::move(parsed).value();
  return std::nullopt;
}

Set boolean(bool Options::*member) {
  return [member](Options& options, const std::string& value) {
    options.*member = value == "1";
    return Mistake();
  };
}

template <typename Owner, typename Text>
Set any_text(Text Owner::*member) {
  return [member](Options& options, const std::string& value) {
    options.*member = value;
    return Mistake();
  };
}

// `what` the value is: "a file".
template <typename Owner, typename Text>
Set some_text(Text Owner::*member, const char* what) {
  return [member, what](Options& options, const std::string& value) {
    if (value.empty()) return Mistake(std::string(" is empty. Name ") + what + ".");
    options.*member = value;
    return Mistake();
  };
}

// What check_choice() has let pass.
template <typename Choice, typename Owner, typename Target>
Set choice(Target Owner::*member) {
  return [member](Options& options, const std::string& value) {
    options.*member = choice_of<Choice>(value).value();
    return Mistake();
  };
}

template <typename Owner, typename T, typename Parsed>
Set parsed(T Owner::*member, base::Result<Parsed> (*parse)(const std::string&)) {
  return [member, parse](Options& options, const std::string& value) {
    return assign_parsed(options.*member, parse(value));
  };
}

void assign(int& target, std::int64_t number) {
  target = static_cast<int>(number);
}

template <typename Number>
void assign(std::optional<Number>& target, std::int64_t number) {
  target = static_cast<Number>(number);
}

template <typename Owner, typename T>
Set integer(T Owner::*member, int minimum, int maximum) {
  return [=](Options& options, const std::string& value) {
    const auto number = base::parse_integer(value, minimum, maximum);
    if (!number) {
      return Mistake(" is not a number from " + std::to_string(minimum) + " to " + std::to_string(maximum) + ".");
    }
    assign(options.*member, *number);
    return Mistake();
  };
}

Mistake set_workers(Options& options, const std::string& value) {
  using By = WorkerCount::By;
  constexpr std::pair<std::string_view, By> kWords[] = {
      {"auto", By::gpus_or_cpus}, {"gpu", By::gpus}, {"cpu", By::cpus}};
  for (const auto& [word, by] : kWords) {
    if (value == word) options.nproc_per_node = by;
    if (value == word) return std::nullopt;
  }
  const auto number = base::parse_integer(value, 1, limits::kWorkersPerNode);
  if (!number) return " is not a number from 1 to " + std::to_string(limits::kWorkersPerNode) + ", auto, gpu or cpu.";
  options.nproc_per_node = static_cast<int>(*number);
  return std::nullopt;
}

Mistake set_nodes(Options& options, const std::string& value) {
  const auto nodes = parse_nodes(value);
  if (!nodes) return nodes.error().message;
  std::tie(options.min_nodes, options.max_nodes) = nodes.value();
  return std::nullopt;
}

Mistake set_engine(Options& options, const std::string& value) {
  const std::vector<std::string> names = engine_names();
  if (std::find(names.begin(), names.end(), value) == names.end()) {
    return " is not known. Use one of " + base::join(names, ", ") + ".";
  }
  options.engine = value;
  return std::nullopt;
}

// Beats come once a second.
Mistake set_node_timeout(Options& options, const std::string& value) {
  const auto time = parse_seconds(value);
  if (!time) return time.error().message;
  if (time.value() < 3 * limits::kNodeBeat)
    return " is too short: nodes say once a second that they live. Use 3 or more.";
  options.node_timeout = time.value();
  return std::nullopt;
}

Mistake set_hosts(Options& options, const std::string& value) {
  auto hosts = parse_hosts(value);
  if (!hosts) return ": " + hosts.error().message;
  if (hosts.value().empty()) return " names no host. Write hosts as in a,b:4.";
  options.hosts = std::move(hosts).value();
  return std::nullopt;
}

Mistake set_ssh(Options& options, const std::string& value) {
  if (value.find_first_not_of(' ') == std::string::npos) return " is empty. Name a program, as in ssh -p 2222.";
  options.ssh = value;
  return std::nullopt;
}

Mistake add_forwarded(Options& options, const std::string& value) {
  for (std::string& name : base::split(value, ',')) {
    const std::size_t end = std::min(name.find('='), name.size());
    if (end == 0) return " has an empty name. Use NAME, NAME* or NAME=value, separated by one comma each.";
    const std::size_t star = name.substr(0, end).find('*');
    if (star != std::string::npos && star + 1 != name.size()) return ": a * can only be the end of a name.";
    options.forwarded.push_back(std::move(name));
  }
  return std::nullopt;
}

Mistake set_run_id(Options& options, const std::string& value) {
  if (value.empty()) return " is empty. Name the run, or leave the option out for a random name.";
  // It becomes part of a folder's name.
  if (value.find('/') != std::string::npos) return " has a slash. Use a name without one.";
  options.run_id = value;
  return std::nullopt;
}

Mistake set_rendezvous_backend(Options& options, const std::string& value) {
  if (value.starts_with("etcd")) return " needs an etcd server, which ddplaunch does not use. Use c10d.";
  options.rdzv_backend = choice_of<RdzvBackend>(value);
  if (!options.rdzv_backend) return " is not a rendezvous that ddplaunch knows. Use static or c10d.";
  return std::nullopt;
}

Mistake refuse_logs_specs(Options&, const std::string&) {
  return " names Python code that lays out torchrun's logs, which ddplaunch cannot load. Use --log-dir, --redirects, "
         "--tee and --local-ranks-filter instead.";
}

Mistake set_use_env(Options& options, const std::string& value) {
  options.local_rank_argument = options.manner == Manner::torch_launch && value == "0";
  return std::nullopt;
}

Mistake set_on_sigpipe(Options& options, const std::string& value) {
  options.end_on_closed_console = value == "end";
  return std::nullopt;
}

Mistake accept(Options&, const std::string&) {
  return std::nullopt;
}

Mistake check_seconds(Options&, const std::string& value) {
  const auto seconds = parse_seconds(value);
  return seconds ? std::nullopt : Mistake(seconds.error().message);
}

Mistake set_store_limit(Options& options, const std::string& value) {
  return store::set_store_limits(options.store_limits, value);
}

// Several in one value, separated by spaces, are for configuration files.
Mistake add_fault(Options& options, const std::string& value) {
  if (const auto faults = wire::parse_faults(value); !faults) return ": " + faults.error().message;
  options.faults.push_back(value);
  return std::nullopt;
}

struct Setter {
  std::string_view option;
  Set set;
};

const std::vector<Setter>& setters() {
  constexpr int kMost = 1'000'000;
  static const std::vector<Setter> kSetters = {
      {"nproc-per-node", set_workers},
      {"nnodes", set_nodes},
      {"node-rank", integer(&Options::node_rank, 0, kMost)},
      {"role", some_text(&Options::role, "the role")},
      {"hosts", set_hosts},
      {"hostfile", some_text(&Options::host_file, "a file")},
      {"ssh", set_ssh},
      {"remote-launcher", some_text(&Options::remote_launcher, "a path")},
      {"forward-env", add_forwarded},
      {"module", boolean(&Options::module)},
      {"no-python", boolean(&Options::no_python)},
      {"run-path", boolean(&Options::run_path)},
      {"use-env", set_use_env},
      {"start-method", accept},
      {"stdin", integer(&Options::stdin_local_rank, 0, limits::kWorkersPerNode - 1)},
      {"standalone", boolean(&Options::standalone)},
      {"rdzv-backend", set_rendezvous_backend},
      {"rdzv-endpoint", parsed(&Options::rdzv_endpoint, parse_endpoint)},
      {"rdzv-id", set_run_id},
      {"rdzv-conf", parsed(&Options::rdzv_conf, parse_rendezvous_settings)},
      {"master-addr", some_text(&Options::master_addr, "the address of node 0")},
      {"master-port", integer(&Options::master_port, 0, 65'535)},
      {"local-addr", some_text(&Options::local_addr, "an address of this node")},
      {"auth-token-file", some_text(&Options::auth_token_file, "a file")},
      {"store-open", boolean(&Options::store_open)},
      {"store-limit", set_store_limit},
      {"gpus", any_text(&Options::gpus)},
      {"device-visibility", choice<DeviceVisibility>(&Options::device_visibility)},
      {"virtual-local-rank", boolean(&Options::virtual_local_rank)},
      {"oversubscribe", boolean(&Options::oversubscribe)},
      {"numa-binding", choice<NumaBinding>(&Options::numa_binding)},
      {"backend", any_text(&Options::backend)},
      {"max-restarts", integer(&Options::max_restarts, 0, kMost)},
      {"grace", parsed(&Options::grace, parse_seconds)},
      {"exit-timeout", parsed(&Options::exit_timeout, parse_seconds)},
      {"node-timeout", set_node_timeout},
      {"engine", set_engine},
      {"hang-timeout", parsed(&Options::hang_timeout, parse_seconds)},
      {"hang-limit", choice<HangLimit>(&Options::hang_limit)},
      {"hang-action", choice<HangAction>(&Options::hang_action)},
      {"inject", add_fault},
      {"signals-to-handle", parsed(&Options::ending_signals, parse_signals)},
      {"core", choice<CoreDumps>(&Options::core)},
      {"monitor-interval", check_seconds},
      {"log-dir", some_text(&Options::log_dir, "a folder")},
      {"redirects", parsed(&Options::redirects, parse_streams)},
      {"tee", parsed(&Options::tee, parse_streams)},
      {"local-ranks-filter", parsed(&Options::console_local_ranks, parse_local_ranks)},
      {"duplicate-stdout-filters", parsed(&Options::stdout_filters, parse_filters)},
      {"duplicate-stderr-filters", parsed(&Options::stderr_filters, parse_filters)},
      {"tag", parsed(&Options::tag, parse_tag)},
      {"collapse",
       [](Options& options, const std::string& value) -> Mistake {
         options.collapse = value == "1";
         return std::nullopt;
       }},
      {"gather-output", boolean(&Options::gather_output)},
      {"lossless", boolean(&Options::lossless)},
      {"on-sigpipe", set_on_sigpipe},
      {"color", choice<Color>(&Options::color)},
      {"logs-specs", refuse_logs_specs},
      {"summary", some_text(&Options::summary_file, "a file")},
      {"event-log", some_text(&Options::event_log, "a file")},
      {"event-log-handler", accept},
      {"quiet", boolean(&Options::quiet)},
      {"dry-run", boolean(&Options::dry_run)},
      {"json", boolean(&Options::json)},
  };
  return kSetters;
}

// Options that are understood and change nothing.
struct WithoutEffect {
  std::string_view option;
  std::string_view value;  // empty: any
  const char* reason;
};

constexpr WithoutEffect kWithoutEffect[] = {
    {"monitor-interval", "", "ddplaunch does not poll, it learns of a worker's end at once"},
    {"start-method", "", "workers are always separate processes"},
    {"event-log-handler", "console", "use --event-log=FILE for a record of the run"},
};

Mistake check_choice(const Setting& setting) {
  const OptionSpec& option = *setting.option;
  if (option.choices.empty() || option.choices_are_examples) return std::nullopt;
  const std::vector<std::string> choices = choices_of(option);
  std::vector<std::string> chosen = {setting.value};
  if (option.several_choices) chosen = base::split(setting.value, ',');
  const bool known = std::all_of(chosen.begin(), chosen.end(), [&](const std::string& choice) {
    return std::find(choices.begin(), choices.end(), choice) != choices.end();
  });
  if (known) return std::nullopt;
  const auto last = std::span(choices).last(1).front();
  return " is not known. Use " + base::join(std::span(choices).first(choices.size() - 1), ", ") + " or " + last +
         (option.several_choices ? ", or several, joined by commas." : ".");
}

Mistake apply(const Setting& setting, Options& options) {
  if (auto mistake = check_choice(setting)) return setting.subject + *mistake;
  const auto setter = std::find_if(setters().begin(), setters().end(),
                                   [&](const Setter& each) { return each.option == setting.option->name; });
  DDP_CHECK(setter != setters().end());
  if (auto mistake = setter->set(options, setting.value)) return setting.subject + *mistake;
  for (const WithoutEffect& entry : kWithoutEffect) {
    if (entry.option == setting.option->name && (entry.value.empty() || entry.value == setting.value)) {
      options.warnings.push_back(setting.subject + " has no effect: " + entry.reason);
    }
  }
  if (setting.option->name == "use-env" && setting.value == "1" && options.manner != Manner::torch_launch) {
    options.warnings.push_back(setting.subject +
                               " has no effect: only ddplaunch launch passes --local_rank to the script");
  }
  return std::nullopt;
}

// What is wrong with the options together.
Mistake check_together(Options& options) {
  if (options.module && options.no_python) {
    return "--no-python and -m exclude one another: a module needs Python. Leave one out.";
  }
  if (options.module && options.run_path) {
    return "--run-path and -m exclude one another: is it a script or a module? Leave one out.";
  }
  if (options.no_python && options.local_rank_argument) {
    return "--no-python needs --use-env with ddplaunch launch: a program that is not a Python script gets no "
           "--local_rank argument. Add --use-env.";
  }
  if (!options.hosts.empty() && !options.host_file.empty()) {
    return "--hosts and --hostfile exclude one another: each names all hosts of the job. Leave one out.";
  }
  if (options.json && !options.dry_run) return "--json is the form of --dry-run. Add --dry-run, or leave --json out.";
  if (options.no_python && options.run_path) {
    options.no_python = false;
    options.warnings.emplace_back("--no-python has no effect: --run-path asks for Python");
  }
  return std::nullopt;
}

}  // namespace

base::Result<Options> make_options(std::span<const Setting> settings, Manner manner) {
  Options options;
  options.manner = manner;
  if (manner != Manner::native) {
    options.grace = kTorchrunGrace;
    options.ending_signals.push_back(SIGQUIT);
  }
  options.local_rank_argument = manner == Manner::torch_launch;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const OptionSpec* option = settings[i].option;
    if (option->sources == OptionSources::command_line) continue;
    const auto again = std::find_if(settings.begin() + static_cast<std::ptrdiff_t>(i) + 1, settings.end(),
                                    [&](const Setting& later) { return later.option == option; });
    if (again != settings.end() && !option->repeatable) continue;
    if (auto mistake = apply(settings[i], options)) return base::Failure{*mistake};
  }
  if (auto mistake = check_together(options)) return base::Failure{*mistake};
  return options;
}

}  // namespace ddp::launcher
