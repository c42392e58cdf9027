#include "launcher/see/view/trace_text.h"

#include <nlohmann/json.hpp>

#include <random>
#include <string>

#include "support/catch.h"
#include "support/random_seed.h"

using namespace ddp::launcher;

TEST_CASE("a trace event is JSON with times in microseconds from the origin") {
  TraceText text(1'000'000);
  text.begin('X', 3, 1).name_json("\"step 1\"").category("step").time(1'002'034).duration(5'000);
  text.begin_args().member("group", "\"world\"").member("number", std::uint64_t{7});
  text.end();
  CHECK(text.take() ==
        "\n{\"ph\":\"X\",\"pid\":3,\"tid\":1,\"name\":\"step 1\",\"cat\":\"step\",\"ts\":2.034,\"dur\":5,"
        "\"args\":{\"group\":\"world\",\"number\":7}}");
  text.begin('f', 0, 2).id(255).time(5).end();
  CHECK(text.take() == ",\n{\"ph\":\"f\",\"pid\":0,\"tid\":2,\"id\":\"0x00000000000000ff\",\"ts\":0}");
  CHECK(text.take().empty());
}

TEST_CASE("names with any bytes become JSON strings") {
  CHECK(json_string("a\"b\\c") == "\"a\\\"b\\\\c\"");
  CHECK(nlohmann::json::parse(json_string("Gr\xc3\xbc\xc3\x9f\x65")).get<std::string>() == "Gr\xc3\xbc\xc3\x9f\x65");
  CHECK(nlohmann::json::parse(json_string("\x01\xff\n")).get<std::string>() == "\\x01\\xff\\x0a");
  std::mt19937 random(ddp::test::random_seed());
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 40, ' ');
    for (char& byte : bytes) byte = static_cast<char>(random());
    CHECK_NOTHROW(nlohmann::json::parse(json_string(bytes)));
  }
}
