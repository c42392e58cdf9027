#include "runtime/checkpoint/checkpoint_file.h"

#include <ddp/error.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "support/catch.h"
#include "support/expect_error.h"
#include "support/random_seed.h"
#include "support/temporary_directory.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;
namespace fs = std::filesystem;

namespace {

// Holds two small tensors and their file.
class SmallModel {
 public:
  std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  std::vector<std::int64_t> counts = {7, 8};
  std::vector<Tensor> tensors = {{"weight", weight, {2, 3}}, {"counts", counts, {2}}};

  std::string path() const { return directory_.path() + "/model.safetensors"; }
  void save() { write_checkpoint_file(path(), tensors, {{"step", "7"}}); }
  std::map<std::string, std::string> load() { return read_checkpoint_file(path(), tensors); }

  void forget() {
    weight.assign(6, -1.0F);
    counts.assign(2, -1);
  }
  bool is_untouched() const {
    return weight == std::vector<float>(6, -1.0F) && counts == std::vector<std::int64_t>(2, -1);
  }
  bool is_as_saved() const {
    return weight == std::vector<float>{1, 2, 3, 4, 5, 6} && counts == std::vector<std::int64_t>{7, 8};
  }

  std::string bytes() const {
    std::ostringstream out;
    out << std::ifstream(path(), std::ios::binary).rdbuf();
    return out.str();
  }
  void replace_bytes(const std::string& bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }
  std::size_t files_in_directory() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory_.path()), fs::directory_iterator()));
  }
  const std::string& directory() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

}  // namespace

TEST_CASE("a checkpoint file cut at any length is corrupt and leaves the tensors unchanged") {
  SmallModel model;
  model.save();
  const std::string whole = model.bytes();
  model.forget();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    INFO("cut at " << length << " of " << whole.size());
    model.replace_bytes(whole.substr(0, length));
    expect_error(ErrorKind::corrupt, {model.path()}, [&] { model.load(); });
    REQUIRE(model.is_untouched());
  }
  model.replace_bytes(whole + "x");
  expect_error(ErrorKind::corrupt, {model.path(), "checksum"}, [&] { model.load(); });
}

TEST_CASE("one flipped bit anywhere in the data makes a checkpoint corrupt") {
  SmallModel model;
  model.save();
  const std::string whole = model.bytes();
  model.forget();
  const std::size_t data_bytes = 6 * 4 + 2 * 8;
  for (std::size_t at = whole.size() - data_bytes; at < whole.size(); ++at) {
    INFO("byte " << at);
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    model.replace_bytes(damaged);
    expect_error(ErrorKind::corrupt, {model.path(), "checksum"}, [&] { model.load(); });
    REQUIRE(model.is_untouched());
  }
}

TEST_CASE("a damaged header is an error or harmless and never loads half a model") {
  const unsigned seed = random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937 generator(seed);
  SmallModel model;
  model.save();
  const std::string whole = model.bytes();
  for (std::size_t at = 0; at < whole.size() - 40; ++at) {
    model.forget();
    std::string damaged = whole;
    damaged[at] = static_cast<char>(generator());
    INFO("byte " << at << " is " << static_cast<int>(damaged[at]));
    model.replace_bytes(damaged);
    try {
      model.load();
      REQUIRE(model.is_as_saved());
    } catch (const Error& error) {
      REQUIRE((error.kind() == ErrorKind::corrupt || error.kind() == ErrorKind::mismatch));
      REQUIRE(model.is_untouched());
    }
  }
}

TEST_CASE("a missing or unreadable checkpoint is unavailable with the reason") {
  SmallModel model;
  expect_error(ErrorKind::unavailable, {model.path(), "No such file"}, [&] { model.load(); });
  expect_error(ErrorKind::unavailable, {model.directory(), "Is a directory"},
               [&] { read_checkpoint_file(model.directory(), model.tensors); });
}

TEST_CASE("a missing directory is unavailable with the reason") {
  SmallModel model;
  expect_error(ErrorKind::unavailable, {"no/such/model", "No such file or directory"},
               [&] { write_checkpoint_file(model.directory() + "/no/such/model", model.tensors, {}); });
  CHECK(model.files_in_directory() == 0);
}

TEST_CASE("a failed write keeps the old checkpoint and leaves no temporary file") {
  SmallModel model;
  fs::create_directory(model.path());
  expect_error(ErrorKind::unavailable, {model.path(), "directory"}, [&] { model.save(); });
  CHECK(fs::is_directory(model.path()));
  CHECK(model.files_in_directory() == 1);
}

TEST_CASE("tensor names that cannot be written keep the old checkpoint") {
  SmallModel model;
  model.save();
  const std::string before = model.bytes();
  const std::vector<Tensor> twice = {{"weight", model.weight, {6}}, {"weight", model.weight, {6}}};
  expect_error(ErrorKind::invalid_argument, {"'weight'"}, [&] { write_checkpoint_file(model.path(), twice, {}); });
  CHECK(model.bytes() == before);
  CHECK(model.files_in_directory() == 1);
}

TEST_CASE("a tensor that does not match the program is named and nothing is loaded") {
  SmallModel model;
  model.save();
  model.forget();
  SECTION("another shape") {
    model.tensors[1].shape = {1, 2};
    expect_error(ErrorKind::mismatch, {"'counts'", "i64[2]", "i64[1x2]", model.path()}, [&] { model.load(); });
  }
  SECTION("another type") {
    model.tensors[1].data.type = DataType::f64;
    expect_error(ErrorKind::mismatch, {"'counts'", "i64[2]", "f64[2]"}, [&] { model.load(); });
  }
  SECTION("a name that the file lacks") {
    model.tensors[1].name = "head";
    expect_error(ErrorKind::mismatch, {"no tensor 'head'"}, [&] { model.load(); });
  }
  CHECK(model.is_untouched());
}

TEST_CASE("saved tensors are loaded with their metadata") {
  SmallModel model;
  model.save();
  model.forget();
  CHECK(model.load() == std::map<std::string, std::string>{{"step", "7"}});
  CHECK(model.is_as_saved());
  CHECK(model.files_in_directory() == 1);
}

TEST_CASE("tensors are found by name, and others in the file are ignored") {
  SmallModel model;
  model.save();
  model.forget();
  read_checkpoint_file(model.path(), std::span(model.tensors).last(1));
  CHECK(model.counts == std::vector<std::int64_t>{7, 8});
  CHECK(model.weight[0] == -1.0F);
}

TEST_CASE("a new checkpoint replaces the old one") {
  SmallModel model;
  model.save();
  model.weight[0] = 99;
  write_checkpoint_file(model.path(), model.tensors, {{"step", "8"}});
  model.forget();
  CHECK(model.load().at("step") == "8");
  CHECK(model.weight[0] == 99);
  CHECK(model.files_in_directory() == 1);
}

TEST_CASE("a checkpoint path that is a symbolic link writes to the link's target") {
  SmallModel model;
  const TemporaryDirectory store;
  const std::string file = store.path() + "/model.safetensors";
  std::filesystem::create_symlink(file, model.path());
  for (int round = 0; round < 2; ++round) {  // the file is made, and is replaced
    model.save();
    CHECK(std::filesystem::is_symlink(model.path()));
    CHECK(std::filesystem::is_regular_file(file));
  }
  model.forget();
  CHECK(model.load().at("step") == "7");
  CHECK(model.files_in_directory() == 1);
}

TEST_CASE("empty tensors and an empty list of tensors can be saved") {
  SmallModel model;
  std::vector<float> none;
  const std::vector<Tensor> empty = {{"empty", none, {0, 3}}};
  write_checkpoint_file(model.path(), empty, {});
  CHECK(read_checkpoint_file(model.path(), empty).empty());
  write_checkpoint_file(model.path(), {}, {{"step", "1"}});
  CHECK(read_checkpoint_file(model.path(), {}).at("step") == "1");
}

TEST_CASE("leftovers of an interrupted save are overwritten by the next one") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/model.safetensors";
  std::ofstream(path + ".tmp") << std::string(100'000, 'x');
  write_checkpoint_file(path, {}, {{"step", "1"}});
  CHECK_FALSE(std::filesystem::exists(path + ".tmp"));
  CHECK(read_checkpoint_file(path, {}).at("step") == "1");
}

TEST_CASE("two processes cannot write the same checkpoint at once") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/model.safetensors";
  const int other = ::open((path + ".tmp").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(::flock(other, LOCK_EX) == 0);
  expect_error(ErrorKind::unavailable, {path, "another process"}, [&] { write_checkpoint_file(path, {}, {}); });
  CHECK(std::filesystem::exists(path + ".tmp"));
  ::close(other);
  write_checkpoint_file(path, {}, {});
  CHECK(checkpoint_file_exists(path));
}

TEST_CASE("a path that is not a regular file is not replaced by a checkpoint") {
  std::vector<float> values(1);
  const ddp::Tensor tensor{"w", values, {1}};
  expect_error(ddp::ErrorKind::invalid_argument, {"/dev/null", "not a regular file"}, [&] {
    ddp::internal::write_checkpoint_file("/dev/null", {&tensor, 1}, {});
  });
}

TEST_CASE("a checkpoint is not written to a cycle of symbolic links") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/circle";
  std::filesystem::create_symlink("circle", path);
  CHECK_THROWS_WITH(write_checkpoint_file(path, {}, {}), Catch::Contains("Too many levels of symbolic links"));
  CHECK(std::filesystem::is_symlink(path));
}
