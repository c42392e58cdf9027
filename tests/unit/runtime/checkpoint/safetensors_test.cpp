#include "runtime/checkpoint/safetensors.h"

#include <ddp/error.h>

#include <map>

#include "support/bytes.h"
#include "support/catch.h"
#include "support/expect_error.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

std::string word(std::uint64_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

void expect_corrupt(const std::string& json, const std::vector<std::string>& words, std::size_t data_bytes = 64) {
  INFO(json);
  expect_error(ErrorKind::corrupt, words, [&] { (void)parse_safetensors_header(json, data_bytes); });
}

// Returns a header with one tensor called "t".
std::string tensor(const std::string& type, const std::string& shape, const std::string& offsets) {
  return R"({"t":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

}  // namespace

TEST_CASE("the header has the documented bytes") {
  float value = 1.5F;
  const std::vector<Tensor> tensors = {{"w", {&value, 1, DataType::f32}, {1}}};
  const std::string header = encode_safetensors_header(tensors, {{"step", "7"}});
  const std::string json = R"({"__metadata__":{"step":"7"},"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  CHECK(header.size() % 64 == 0);
  CHECK(to_hex(header.substr(0, 8)) == "78 00 00 00 00 00 00 00");
  CHECK(header.substr(8, json.size()) == json);
  CHECK(header.substr(8 + json.size()) == std::string(header.size() - 8 - json.size(), ' '));
}

TEST_CASE("a header is unchanged after writing and reading") {
  std::vector<float> floats(6);
  std::vector<double> doubles(1);
  std::vector<std::int32_t> integers;
  std::vector<std::int64_t> longs(2);
  std::vector<std::uint8_t> bytes(3);
  const std::vector<Tensor> tensors = {{"f", floats, {2, 3}},
                                       {"scalar", doubles, {}},
                                       {"empty", integers, {0, 5}},
                                       {"l \"quoted\" \xC3\xA4", longs, {2}},
                                       {"", bytes, {3, 1}}};
  const std::map<std::string, std::string> metadata = {{"step", "7"}, {"", "empty"}, {"note", "a\nb\"c"}};
  const std::string text = encode_safetensors_header(tensors, metadata);
  const std::size_t offset = safetensors_data_offset(text.substr(0, 8), text.size() + 24 + 8 + 16 + 3);
  REQUIRE(offset == text.size());
  const SafetensorsHeader header = parse_safetensors_header(text.substr(8), 24 + 8 + 16 + 3);
  CHECK(header.metadata == metadata);
  REQUIRE(header.tensors.size() == tensors.size());
  std::size_t first = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CHECK(header.tensors[i].name == tensors[i].name);
    CHECK(header.tensors[i].type == tensors[i].data.type);
    CHECK(header.tensors[i].shape == tensors[i].shape);
    CHECK(header.tensors[i].first == first);
    CHECK(header.tensors[i].bytes == tensors[i].data.bytes());
    first += tensors[i].data.bytes();
  }
}

TEST_CASE("a reserved or repeated tensor name is rejected") {
  std::vector<float> values(1);
  expect_error(ErrorKind::invalid_argument, {"'__metadata__'"}, [&] {
    const std::vector<Tensor> tensors = {{"__metadata__", values, {1}}};
    (void)encode_safetensors_header(tensors, {});
  });
  expect_error(ErrorKind::invalid_argument, {"'w'", "twice"}, [&] {
    const std::vector<Tensor> tensors = {{"w", values, {1}}, {"w", values, {1}}};
    (void)encode_safetensors_header(tensors, {});
  });
}

TEST_CASE("an impossible header length is corrupt") {
  expect_error(ErrorKind::corrupt, {"too short"}, [] { (void)safetensors_data_offset("1234567", 7); });
  expect_error(ErrorKind::corrupt, {"too short"}, [] { (void)safetensors_data_offset("", 0); });
  for (const std::uint64_t length : {std::uint64_t{93}, std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{7}}) {
    INFO("length " << length);
    expect_error(ErrorKind::corrupt, {std::to_string(length), "100 bytes"},
                 [&] { (void)safetensors_data_offset(word(length), 100); });
  }
  expect_error(ErrorKind::corrupt, {}, [] { (void)safetensors_data_offset(word((100 << 20) + 1), 1 << 30); });
  CHECK(safetensors_data_offset(word(92), 100) == 100);
  CHECK(safetensors_data_offset(word(0), 8) == 8);
}

TEST_CASE("a header that is not a JSON object is corrupt") {
  for (const char* json : {"", " ", "[]", "7", "null", "{", "{}}", "{\"a\"}", "\xFF", "{\"\xFF\":{}}"}) {
    expect_corrupt(json, {});
  }
  expect_corrupt(std::string(100000, '['), {});
  CHECK(parse_safetensors_header("{}  ", 0).tensors.empty());
}

TEST_CASE("a damaged tensor entry is corrupt") {
  REQUIRE(parse_safetensors_header(tensor("F32", "[2,2]", "[0,16]"), 64).tensors.size() == 1);
  expect_corrupt(R"({"t":7})", {});
  expect_corrupt(R"({"t":{}})", {});
  expect_corrupt(R"({"t":{"dtype":"F32","shape":[4]}})", {});
  expect_corrupt(R"({"t":{"dtype":5,"shape":[4],"data_offsets":[0,16]}})", {});
  expect_corrupt(R"({"__metadata__":{"step":7}})", {});
  expect_corrupt(R"({"__metadata__":"step"})", {});
  expect_corrupt(tensor("F8", "[4]", "[0,16]"), {"unknown type F8"});
  expect_corrupt(tensor("F32", "4", "[0,16]"), {});
  expect_corrupt(tensor("F32", "[\"4\"]", "[0,16]"), {});
  expect_corrupt(tensor("F32", "[4]", "[0]"), {});
  expect_corrupt(tensor("F32", "[4]", "[0,16,32]"), {});
  expect_corrupt(tensor("F32", "[4]", "16"), {});
}

TEST_CASE("a number that is not an integer is corrupt") {
  expect_corrupt(tensor("F32", "[4.5]", "[0,16]"), {});
  expect_corrupt(tensor("F32", "[1e300]", "[0,16]"), {});
  expect_corrupt(tensor("F32", "[true,4]", "[0,16]"), {});
  expect_corrupt(tensor("F32", "[4]", "[0,16.5]"), {});
  expect_corrupt(tensor("F32", "[4]", "[-1e300,16]"), {});
  expect_corrupt(tensor("F32", "[18446744073709551615]", "[0,16]"), {});
}

TEST_CASE("a tensor outside of the data is corrupt and named") {
  expect_corrupt(tensor("F32", "[17]", "[0,68]"), {"'t'", "outside"});
  expect_corrupt(tensor("F32", "[4]", "[16,0]"), {"'t'", "outside"});
  expect_corrupt(tensor("F32", "[4]", "[-16,0]"), {});
  expect_corrupt(tensor("F32", "[0]", "[65,65]"), {"outside"});
  expect_corrupt(tensor("F32", "[4]", "[18446744073709551600,18446744073709551615]"), {"outside"});
}

TEST_CASE("a shape that contradicts the bytes or overflows is corrupt and named") {
  expect_corrupt(tensor("F32", "[5]", "[0,16]"), {"'t'", "does not match its shape"});
  expect_corrupt(tensor("F64", "[4]", "[0,16]"), {"'t'", "does not match its shape"});
  expect_corrupt(tensor("F32", "[-4]", "[0,16]"), {"'t'", "impossible shape"});
  expect_corrupt(tensor("F32", "[4611686018427387904,4]", "[0,0]"), {"'t'", "impossible shape"});
  expect_corrupt(tensor("F32", "[2147483648,2147483648,2147483648]", "[0,0]"), {"'t'", "impossible shape"});
}
