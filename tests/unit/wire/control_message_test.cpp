#include "wire/control_message.h"

#include "support/catch.h"
#include "wire/limits.h"

using namespace ddp::wire;

TEST_CASE("messages of launchers are unchanged after encoding and decoding") {
  const Cause cause{"rank 5: exited with code 3", "b", 3, 15, Knowledge::secondary, 2, true, "asked to end", true};
  const std::vector<ControlMessage> messages = {
      NodeHello{2, "exp7", "b", 1, 4, "2:4", {{"program", "train"}}, {{"NCCL_DEBUG", "INFO"}}, 17, -3},
      NodeFailed{2, cause},
      NodeLeft{2, 5},
      NodeEnded{2},
      NodeShows{2, Subject::ranks, R"([{"rank":4}])"},
      NodeHeartbeat{2, {1, 3, 0, {2}}},
      CoordinatorRefuses{"another job"},
      CoordinatorWaits{"the job runs", true},

      CoordinatorBegins{2, 1, 2, 4, 8, "a (ranks 0-3), b (ranks 4-7)"},
      CoordinatorAsks{2, Subject::records, 18'000'000'000'000'000'000U},
      CoordinatorEnds{2, cause},
      CoordinatorRestarts{"restart 1 of 3 in 0.2 s"},
      CoordinatorIsElsewhere{"run7", "10.0.0.2", 29400},
      CoordinatorIsDone{cause}};
  for (const ControlMessage& message : messages) {
    const auto decoded = decode_control(encode(message));
    REQUIRE(decoded);
    CHECK(*decoded == message);
  }
  CHECK(messages.size() == std::variant_size_v<ControlMessage>);
}

TEST_CASE("text that is not a message is rejected") {
  for (const std::string text :
       {"", "x", "{}", "[]", R"({"is":"heartbeat"})", R"({"is":"nothing","of":{}})", R"({"is":7,"of":{}})",
        R"({"is":"ended","of":{}})", R"({"is":"ended","of":{"attempt":"x"}})", R"({"is":"ended","of":7})",
        R"({"is":"done","of":{"cause":7}})", R"({"is":"left","of":{"attempt":4294967296,"rank":0}})",
        R"({"is":"left","of":{"attempt":0,"rank":1.5}})", R"({"is":"left","of":{"attempt":true,"rank":0}})"}) {
    CAPTURE(text);
    CHECK_FALSE(decode_control(text));
  }
}

TEST_CASE("decode_control() refuses a message over kControlJsonBytes, unless it is NodeShows") {
  const std::string most(ddp::limits::kControlJsonBytes, 'a');
  CHECK_FALSE(decode_control(encode(CoordinatorWaits{most})));
  CHECK(decode_control(encode(CoordinatorWaits{most.substr(400)})));
  CHECK(decode_control(encode(NodeShows{0, Subject::output, most})));
}

TEST_CASE("a control message with text that is not UTF-8 is still encoded and decoded") {
  const auto decoded = decode_control(encode(CoordinatorWaits{"a\xff"}));
  REQUIRE(decoded);
  CHECK(std::get<CoordinatorWaits>(*decoded).text != "");
}

TEST_CASE("any bytes in a text are unchanged after encoding and decoding") {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const auto decoded = decode_control(encode(NodeShows{0, Subject::output, all}));
  REQUIRE(decoded);
  CHECK(std::get<NodeShows>(*decoded).text == all);
  CHECK(text_to_bytes(bytes_to_text(all)) == all);
  CHECK_FALSE(decode_control(R"({"is":"shows","of":{"attempt":0,"what":"output"}})"));
  CHECK(text_to_bytes("a\xe2\x82\xac"
                      "b\xc3") == "a?b?");
}
