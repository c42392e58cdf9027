// Tests the same option by every route: both spellings, both forms of a value, a variable, a TOML and a JSON file.
#include <algorithm>
#include <fstream>
#include <map>

#include "launcher/start/cli/job_options.h"
#include "support/command_line.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

namespace {

// Maps an option to a value that is not the default.
const std::map<std::string, std::string> kValues = {
    {"nproc-per-node", "3"},
    {"nnodes", "2:3"},
    {"node-rank", "1"},
    {"node-timeout", "20"},
    {"witness", "/a b/c"},
    {"scheduler", "slurm"},
    {"role", "trainer"},
    {"hosts", "a,node[1-2]:4"},
    {"hostfile", "/a b/c"},
    {"ssh", "ssh -p 2222"},
    {"remote-launcher", "/a b/c"},
    {"forward-env", "A,B*,C=3"},
    {"start-method", "fork"},
    {"preload", "torch"},
    {"stdin", "1"},
    {"rdzv-backend", "c10d"},
    {"rdzv-endpoint", "[::1]:29400"},
    {"rdzv-id", "run 7"},
    {"rdzv-conf", "timeout=3,is_host=1"},
    {"master-addr", "node0"},
    {"master-port", "29500"},
    {"local-addr", "10.0.0.1"},
    {"auth-token-file", "/a b/c"},
    {"store-limit", "table-bytes=64MiB,keys=3"},
    {"gpus", "0,GPU-5f1c,MIG-7"},
    {"device-visibility", "all"},
    {"numa-binding", "core-complex"},
    {"backend", "gloo"},
    {"max-restarts", "3"},
    {"image-cost", "1%"},
    {"image-dir", "/a b/images"},
    {"grace", "0.5"},
    {"save-grace", "60"},
    {"save-signals", "SIGUSR2"},
    {"save-file", "/a b/f"},
    {"save-command", "curl -sf http://169.254.169.254/a"},
    {"exit-timeout", "9"},
    {"hang-timeout", "90"},
    {"check", "quick"},
    {"hang-limit", "learnt"},
    {"hang-action", "warn"},
    {"inject", "rank=0,at=any:3,kind=stop"},
    {"signals-to-handle", "SIGTERM,INT"},
    {"core", "unlimited"},
    {"monitor-interval", "5"},
    {"log-dir", "/a b/c"},
    {"log-level", "debug"},
    {"launcher-log", "/a b/l"},
    {"redirects", "0:1,12:3"},
    {"tee", "3"},
    {"local-ranks-filter", "0,12"},
    {"duplicate-stdout-filters", "loss,,x,step"},
    {"duplicate-stderr-filters", "error"},
    {"tag", "[${node}/${rank}] "},
    {"on-sigpipe", "end"},
    {"color", "always"},
    {"summary", "s.json"},
    {"event-log", "e.jsonl"},
    {"report", "r.html"},
    {"trace", "t.json.gz"},
    {"record", "off"},
    {"event-log-handler", "console"},
};

// The text of a warning depends on the route, but its existence does not. The remark that names the route is left out.
Options parse(const Words& words, const Words& environment = {}) {
  Options options = parsed_as(words, environment);
  std::erase_if(options.warnings,
                [](const std::string& each) { return each.starts_with("options set by the environment"); });
  for (std::string& warning : options.warnings) warning = "a warning";
  return options;
}

Options parse_file(const std::string& name, const std::string& text, const Words& more) {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() + "/" + name) << text;
  Words words = {"--config", directory.path() + "/" + name};
  words.insert(words.end(), more.begin(), more.end());
  return parse(words);
}

}  // namespace

TEST_CASE("an option with a value has the same effect from each source") {
  for (const OptionInfo& option : job_options()) {
    if (option.is_flag() || !option.in_files) continue;
    if (option.name() == "logs-specs") continue;  // this option is always refused
    const std::string& name = option.name();
    CAPTURE(name);
    REQUIRE(kValues.count(name) == 1);
    const std::string& value = kValues.at(name);

    const Options expected = parse({"--" + name + "=" + value, "p"});
    CHECK_FALSE(expected == parse({"p"}));
    CHECK(expected == parse({"--" + name, value, "p"}));
    CHECK(expected == parse({"--" + with_underscores(name) + "=" + value, "p"}));
    CHECK(expected == parse({"--" + with_underscores(name), value, "p"}));
    if (!option.variable.empty()) CHECK(expected == parse({"p"}, {variable_of(name) + "=" + value}));
    for (const std::string& key : {name, with_underscores(name)}) {
      CHECK(expected == parse_file("a.toml", key + " = \"" + value + "\"\n", {"p"}));
      CHECK(expected == parse_file("a.ini", key + "='" + value + "'\n", {"p"}));
      CHECK(expected == parse_file("a.json", "{\"" + key + "\": \"" + value + "\"}", {"p"}));
    }
  }
}

TEST_CASE("an option without a value has the same effect from each source") {
  for (const OptionInfo& option : job_options()) {
    if (!option.is_flag() || !option.in_files) continue;
    const std::string& name = option.name();
    CAPTURE(name);
    // --json is an error without --dry-run.
    const Words rest = name == "json" ? Words{"--dry-run", "p"} : Words{"p"};
    const auto with = [&](const std::string& word) {
      Words words = rest;
      words.insert(words.begin(), word);
      return words;
    };

    const Options expected = parse(with("--" + name));
    CHECK_FALSE(expected == parse(rest));
    CHECK(expected == parse(with("--" + with_underscores(name))));
    CHECK(expected == parse(rest, {variable_of(name) + "=1"}));
    for (const std::string& key : {name, with_underscores(name)}) {
      CHECK(expected == parse_file("a.toml", key + " = true\n", rest));
      CHECK(expected == parse_file("a.ini", key + "\n", rest));
      CHECK(expected == parse_file("a.json", "{\"" + key + "\": true}", rest));
    }
    // Off is the default of all other flags.
    if (name == "collapse" || name == "progress-line") continue;
    CHECK(parse(rest) == parse(rest, {variable_of(name) + "=0"}));
    CHECK(parse(rest) == parse_file("a.toml", name + " = false\n", rest));
    CHECK(parse(rest) == parse_file("a.json", "{\"" + name + "\": 0}", rest));
  }
}

TEST_CASE("an invalid option is rejected from each source") {
  const std::vector<std::pair<Words, Words>> routes = {
      {{"--logs-specs=x", "p"}, {}},      {{"--logs_specs", "x", "p"}, {}},     {{"--rdzv-backend=etcd", "p"}, {}},
      {{"p"}, {"PET_RDZV_BACKEND=etcd"}}, {{"p"}, {"PET_START_METHOD=thread"}},
  };
  for (const auto& [words, environment] : routes) {
    std::vector<const char*> argv{"ddplaunch"};
    for (const std::string& word : words) argv.push_back(word.c_str());
    CAPTURE(words, environment);
    CHECK(std::holds_alternative<UsageError>(
        parse_command_line(static_cast<int>(argv.size()), argv.data(), environment)));
  }
}
