#include "runtime/checkpoint/manifest.h"

#include <ddp/error.h>

#include "support/catch.h"
#include "support/expect_error.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

Manifest example() {
  Manifest manifest;
  manifest.step = 1200;
  manifest.save = "0123456789abcdef";
  manifest.files = {{"part-00000-of-00002.safetensors", 1000}, {"part-00001-of-00002.safetensors", 900}};
  manifest.tensors["weight"] = {DataType::f32, {4, 5}, {{0, 0, 12}, {1, 12, 8}}};
  manifest.tensors["scale"] = {DataType::bf16, {}, {{1, 0, 1}}};
  manifest.tensors["none"] = {DataType::i64, {0, 3}, {}};
  manifest.values = {{"epoch", "3"}, {"text", "\xc3\xa4 \"x\"\n"}};
  manifest.rank_values = {{{"rng", "1 2 3"}}, {}};
  return manifest;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a manifest is unchanged after writing and reading") {
  CHECK(parse_manifest(encode_manifest(example())) == example());
  CHECK(parse_manifest(encode_manifest({})) == Manifest{});
}

TEST_CASE("a modified or truncated manifest is rejected") {
  const std::string text = encode_manifest(example());
  std::string changed = text;
  replace(changed, "900", "901");
  expect_error(ErrorKind::corrupt, {"checksum"}, [&] { parse_manifest(changed); });
  for (std::size_t length = 0; length + 2 < text.size(); length += 7) {
    expect_error(ErrorKind::corrupt, {"its format is invalid"}, [&] { parse_manifest(text.substr(0, length)); });
  }
  expect_error(ErrorKind::corrupt, {"its format is invalid"}, [] { parse_manifest("[]"); });
  expect_error(ErrorKind::corrupt, {"another kind"}, [] { parse_manifest(R"({"format": "x"})"); });
  std::string newer = text;
  replace(newer, "\"version\": 2", "\"version\": 7");
  expect_error(ErrorKind::corrupt, {"version 7", "reads version 2"}, [&] { parse_manifest(newer); });
}

TEST_CASE("a manifest whose pieces do not cover their tensors is rejected") {
  const auto refused = [](std::vector<ManifestPiece> pieces, const std::string& why) {
    Manifest manifest = example();
    manifest.tensors["weight"].pieces = std::move(pieces);
    expect_error(ErrorKind::corrupt, {"'weight'", why}, [&] { parse_manifest(encode_manifest(manifest)); });
  };
  refused({{0, 0, 12}}, "incomplete");
  refused({{0, 0, 12}, {1, 13, 7}}, "do not fit");
  refused({{0, 0, 12}, {1, 11, 9}}, "do not fit");
  refused({{0, 0, 12}, {2, 12, 8}}, "do not fit");
  refused({{0, 0, 12}, {1, 12, 9}}, "incomplete");
  refused({{0, 0, 12}, {1, 12, SIZE_MAX}}, "do not fit");
  for (const char* name : {"", "../other", "/etc/passwd"}) {
    Manifest strange = example();
    strange.files[0].name = name;
    expect_error(ErrorKind::corrupt, {"not in its directory"}, [&] { parse_manifest(encode_manifest(strange)); });
  }
  Manifest manifest = example();
  manifest.tensors["weight"].shape = {-4, -5};
  expect_error(ErrorKind::corrupt, {"impossible shape"}, [&] { parse_manifest(encode_manifest(manifest)); });
}
