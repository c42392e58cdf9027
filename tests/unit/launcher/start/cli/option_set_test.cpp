#include "launcher/start/cli/option_set.h"

#include <set>

#include "launcher/start/cli/completion.h"
#include "launcher/start/cli/help_text.h"
#include "launcher/start/cli/job_options.h"
#include "support/catch.h"

using namespace ddp::launcher;

namespace {

const OptionList kOptions = job_options();

const OptionInfo& option(std::string_view name) {
  return *find_option(name, kOptions);
}

}  // namespace

TEST_CASE("each option is found in both spellings, and no name is used twice") {
  std::set<std::string> seen;
  for (const OptionInfo& each : kOptions) {
    for (const std::string& name : each.names) {
      CAPTURE(name);
      CHECK(seen.insert(name).second);
      CHECK(name == with_dashes(name));
      CHECK(find_option(name, kOptions) == &each);
      CHECK(find_option(with_underscores(name), kOptions) == &each);
    }
    if (!each.short_name.empty()) CHECK(find_short_option(each.short_name[0], kOptions) == &each);
  }
  CHECK(find_option("no-such-option", kOptions) == nullptr);
  CHECK(find_short_option('z', kOptions) == nullptr);
  CHECK(find_short_option('\0', kOptions) == nullptr);
}

TEST_CASE("each option has a help text, and each value has a name") {
  for (const OptionInfo& each : kOptions) {
    CAPTURE(each.name());
    CHECK(each.help.size() > 10);
    CHECK((each.help.ends_with('.') || each.help.ends_with(']')));
    CHECK(each.is_flag() == each.value_name.empty());
    CHECK(each.value_name.find('{') == std::string::npos);
  }
  CHECK(option("quiet").is_flag());
  CHECK(option("grace").value_name == "SECONDS");
}

TEST_CASE("only options that can be negated have a negated form") {
  CHECK(option("tag").is_negation("no-tag"));
  CHECK(option("collapse").is_negation(with_dashes("no_collapse")));
  CHECK_FALSE(option("tag").is_negation("tag"));
  CHECK_FALSE(option("no-python").is_negation("no-python"));
  CHECK(find_option("no-quiet", kOptions) == nullptr);
}

TEST_CASE("each option lists its possible values or examples of them") {
  CHECK(option("color").choices == std::vector<std::string>{"auto", "always", "never"});
  CHECK_FALSE(option("color").choices_are_examples);
  CHECK(option("nproc-per-node").choices == std::vector<std::string>{"auto", "gpu", "cpu"});
  CHECK(option("nproc-per-node").choices_are_examples);
  CHECK(option("hosts").choices.empty());
  CHECK(option("inject").repeatable);
  CHECK_FALSE(option("tee").repeatable);
}

TEST_CASE("the variable of an option is its name in capitals after PET_") {
  CHECK(variable_of("nproc-per-node") == "PET_NPROC_PER_NODE");
  CHECK(variable_of("tee") == "PET_TEE");
  CHECK(option("nproc-per-node").variable == "PET_NPROC_PER_NODE");
}

TEST_CASE("the options --numa-binding and --logs-specs have no variable, as in torchrun") {
  CHECK((option("numa-binding").variable.empty() && option("numa-binding").in_files));
  CHECK((option("logs-specs").variable.empty() && option("logs-specs").in_files));
  CHECK(option("nnodes").variable == "PET_NNODES");
  for (const char* name : {"config", "completion", "man", "version", "help"}) {
    CHECK((option(name).variable.empty() && !option(name).in_files));
  }
}

TEST_CASE("the suggested option uses the user's spelling") {
  CHECK(unknown_option("--nproc_per_nod", kOptions) ==
        "unknown option --nproc_per_nod. Did you mean --nproc_per_node?");
  CHECK(unknown_option("grcae", kOptions) == "unknown option grcae. Did you mean grace?");
  CHECK(unknown_option("--zzzzzzzz", kOptions) == "unknown option --zzzzzzzz.");
  CHECK(unknown_option("", kOptions) == "unknown option .");
}

TEST_CASE("the last of all settings of an option wins, and an overridden invalid setting is not validated") {
  std::string taken;
  OptionSet set(false);
  set.value(
      "-a,--one", "TEXT",
      [&](const std::string& value) -> Mistake {
        taken = value;
        if (value == "wrong") return " is wrong.";
        return std::nullopt;
      },
      "One.");
  std::vector<std::string> program;
  set.program(4, program);
  const OptionInfo* one = find_option("one", set.options());
  const std::vector<std::string> words = {"[a,b]", "{}", "--one", "--"};
  CHECK_FALSE(set.parse(std::vector<Setting>{{one, "wrong", "-a=wrong"}, {one, "[x]", "-a=[x]"}}, words));
  CHECK(taken == "[x]");
  CHECK(program == words);
  CHECK(set.parse(std::vector<Setting>{{one, "x", "-a=x"}, {one, "wrong", "PET_ONE=wrong"}}, words) ==
        "PET_ONE=wrong is wrong.");
}

TEST_CASE("an unknown short option suggests a long one") {
  const OptionList options = job_options();
  CHECK(unknown_option("-n", options) == "unknown option -n. Did you mean --nproc-per-node?");
}
