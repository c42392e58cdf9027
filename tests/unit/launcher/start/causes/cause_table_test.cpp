#include "launcher/start/causes/cause_table.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "base/text.h"
#include "support/catch.h"
#include "support/paths.h"

namespace ddp::launcher {
namespace {

TEST_CASE("a pattern matches if its parts occur in the line in order") {
  CHECK(matches("rank … failed", "the rank 3 has failed"));
  CHECK(matches("rank …failed", "rank failed"));
  CHECK_FALSE(matches("rank … failed", "failed rank "));
  CHECK_FALSE(matches("ValueError: a", "how do I fix ValueError: a"));
  CHECK(matches("ValueError: a", "[1] ValueError: a"));
  CHECK_FALSE(matches("out of memory", "text='out of memory'"));
  CHECK_FALSE(matches("out of memory", "text='see: out of memory'"));
  CHECK(matches("out of memory", "pid='7', out of memory"));
  CHECK(matches("out of memory", "{\"level\": \"error\", \"text\": \"out of memory\"}"));
  CHECK(longest_part("rank … has failed … on") == " has failed ");
}

TEST_CASE("each row of the cause table is complete and has words to search for") {
  std::set<std::string_view> ids;
  for (const Cause* cause : all_causes()) {
    CAPTURE(cause->id);
    CHECK(ids.insert(cause->id).second);
    CHECK(cause->id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos);
    CHECK_FALSE(cause->patterns[0].empty());
    for (const std::string_view pattern : cause->patterns) {
      if (!pattern.empty()) CHECK(longest_part(pattern).size() >= WordFinder::kShortestWord);
    }
    CHECK(cause->cause.ends_with('.'));
    CHECK(cause->cause_zh.ends_with("。"));
    CHECK_FALSE(cause->remedy.empty());
    CHECK_FALSE(cause->remedy_zh.empty());
    CHECK(find_cause_by_id(cause->id) == cause);
    const std::string_view page = cause->page.substr(0, cause->page.find('#'));
    if (!page.empty()) CHECK(std::filesystem::exists(test::source_directory() + "/docs/" + std::string(page)));
  }
}

TEST_CASE("each known error text is matched to its cause") {
  for (const char* group : {"programs", "data_parallel", "communication", "clusters"}) {
    std::ifstream file(test::source_directory() + "/tests/explain/known/" + group + ".json");
    const auto texts = nlohmann::json::parse(file);
    CHECK_FALSE(texts.empty());
    for (const auto& text : texts) {
      CAPTURE(text.dump());
      const Cause* found = find_cause_in(base::split(text.at("text").get<std::string>(), '\n'));
      REQUIRE(found != nullptr);
      CHECK(found->id == text.at("cause").get<std::string>());
      CHECK_FALSE(text.at("source").get<std::string>().empty());
    }
  }
}

TEST_CASE("a real failure outranks a timeout, and a timeout outranks a lost peer") {
  const Cause failure{
      .id = "a", .patterns = {}, .proof = Proof::failure, .cause = "", .remedy = "", .cause_zh = "", .remedy_zh = ""};
  Cause lost = failure;
  lost.proof = Proof::lost_peer;
  CHECK(better_cause(&lost, &failure) == &failure);
  CHECK(better_cause(&failure, &lost) == &failure);
  CHECK(better_cause(nullptr, &lost) == &lost);
  CHECK(better_cause(nullptr, nullptr) == nullptr);
}

}  // namespace
}  // namespace ddp::launcher
