#include "launcher/start/cli/config_file.h"

#include <map>

#include "launcher/start/cli/job_options.h"
#include "support/catch.h"

using namespace ddp;
using namespace ddp::launcher;

namespace {

const OptionList kOptions = job_options();

base::Result<std::vector<Setting>> read_json(const std::string& text) {
  return settings_of_config("job.json", text, kOptions);
}

std::string json_mistake(const std::string& text) {
  const auto result = read_json(text);
  REQUIRE_FALSE(result.ok());
  return result.error().message;
}

std::string toml_mistake(const std::string& text) {
  const auto result = settings_of_config("job.toml", text, kOptions);
  REQUIRE_FALSE(result.ok());
  return result.error().message;
}

}  // namespace

TEST_CASE("JSON values of every type become option settings") {
  const auto settings = read_json(R"({"nproc_per_node": 2, "grace": 0.5, "quiet": true, "lossless": 0,
      "tee": ["0:1", "12:3"], "tag": "[${rank}] #, "})")
                            .value();
  std::map<std::string, std::string> values;
  for (const Setting& setting : settings) values[setting.option->name()] = setting.value;
  CHECK(values == std::map<std::string, std::string>{{"nproc-per-node", "2"},
                                                     {"grace", "0.5"},
                                                     {"quiet", "1"},
                                                     {"lossless", "0"},
                                                     {"tee", "0:1,12:3"},
                                                     {"tag", "[${rank}] #, "}});
}

TEST_CASE("every option except those about ddplaunch itself can be set in a JSON file in both spellings") {
  for (const OptionInfo& option : kOptions) {
    for (const std::string& key : {option.name(), with_underscores(option.name())}) {
      const auto result = read_json("{\"" + key + "\": 1}");
      CAPTURE(key);
      if (!option.in_files) {
        CHECK(result.error().message == "job.json: " + key + " cannot be set in a file.");
      } else {
        REQUIRE(result.ok());
        CHECK(result.value().at(0).option == &option);
        CHECK(result.value().at(0).value == "1");
        CHECK(result.value().at(0).subject == "job.json: " + key + "=1");
      }
    }
  }
}

TEST_CASE("mistakes in a JSON configuration file are reported") {
  CHECK(json_mistake("{").starts_with("job.json is not JSON: "));
  CHECK(json_mistake("").starts_with("job.json is not JSON: "));
  CHECK(json_mistake("[1]").starts_with("job.json is not a JSON object. Example: "));
  CHECK(json_mistake(R"({"grcae": 1})") == "job.json: unknown option grcae. Did you mean grace?");
  CHECK(json_mistake(R"({"nproc_per_nod": 1})").ends_with("Did you mean nproc_per_node?"));
  CHECK(json_mistake(R"({"zzzzzzzzz": 1})") == "job.json: unknown option zzzzzzzzz.");
  CHECK(json_mistake(R"({"grace": 1, "grace": 2})") == "job.json sets grace twice. Keep one.");
  CHECK(json_mistake(R"({"rdzv-id": "a", "rdzv_id": "b"})") == "job.json: rdzv-id is given twice. Keep one.");
  CHECK(json_mistake(R"({"grace": null})").starts_with("job.json gives grace a value that is neither"));
  CHECK(json_mistake(R"({"rdzv-conf": {"timeout": 1}})").starts_with("job.json gives rdzv-conf a value"));
  CHECK(json_mistake(R"({"quiet": "loud"})") == "job.json: quiet=loud is neither true nor false.");
  CHECK(json_mistake(R"({"no-tag": true})") == "job.json: no-tag cannot be set in a file. Use tag.");
  CHECK(json_mistake(R"({"duplicate-stdout-filters": ["a,b", "c"]})").find("comma within an element") !=
        std::string::npos);
}

TEST_CASE("unsupported TOML syntax is reported with its line") {
  CHECK(toml_mistake("quiet\nm\n") == "job.toml:2: \"m\" is not of the form NAME = VALUE.");
  CHECK(toml_mistake("tag = \"#${rank}\"\n").starts_with("job.toml:1: a # within quotes"));
  CHECK(toml_mistake("tee = [1,\n 2\n") == "job.toml: a list begins with [ but has no closing ].");
  CHECK(toml_mistake("# x\n\ngrcae = 1") == "job.toml:3: unknown option grcae. Did you mean grace?");
  CHECK(toml_mistake("grace = 1\nquiet\ngrace=2") == "job.toml:3: grace is given twice. Keep one.");
  CHECK(toml_mistake("[a]\ngrace = 1").ends_with("sections are not supported. Write all options outside of sections."));
}
