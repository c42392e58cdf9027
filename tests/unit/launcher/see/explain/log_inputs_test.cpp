#include "launcher/see/explain/log_inputs.h"

#include <filesystem>
#include <fstream>

#include "support/catch.h"
#include "support/temporary_directory.h"

namespace ddp::launcher {
namespace {

TEST_CASE("ranks are recognised in file names") {
  CHECK(rank_in_path("logs/attempt_0/3/stderr.log") == 3);
  CHECK(rank_in_path("logs/rank_3.out") == 3);
  CHECK(rank_in_path("rank3/stdout") == 3);
  CHECK(rank_in_path("log.12") == 12);
  CHECK(rank_in_path("job.rank.12.out") == 12);
  CHECK(rank_in_path("1/rank.7/stdout") == 7);
  CHECK_FALSE(rank_in_path("slurm-4711.out"));
  CHECK_FALSE(rank_in_path("job.12.out"));
  CHECK_FALSE(rank_in_path("run.2.13.log"));
  CHECK_FALSE(rank_in_path("2026/logs/train.log"));
  CHECK_FALSE(rank_in_path(""));
  CHECK_FALSE(rank_in_path("/"));
}

struct Files {
  TemporaryDirectory directory;

  std::string write(const std::string& name, const std::string& text) {
    const std::string path = directory.path() + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  FilesRead read(const std::string& input) {
    const std::vector<std::string> inputs = {input};
    return read_log_inputs(find_log_inputs(inputs).value()).value();
  }
};

TEST_CASE_METHOD(Files, "a directory is read for its logs, and other files are ignored") {
  write("0/stderr.log", "fine\n");
  write("1/stderr.log", "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\nValueError: x\n");
  write("model.pt", "PK\x03\x04");
  const FilesRead read = this->read(directory.path());
  REQUIRE(read.logs.size() == 2);
  REQUIRE(read.logs[1].failures.size() == 1);
  CHECK(read.logs[1].failures[0].rank == 1);
}

TEST_CASE_METHOD(Files, "zero bytes at the beginning of a DataLoader's log line are accepted") {
  const std::string worker("ERROR: Unexpected segmentation fault encountered in worker.\n\0", 61);
  const FilesRead read = this->read(write("a.log", "begin\n" + worker + worker + "ValueError: x\n"));
  CHECK(read.logs.at(0).lines == 4);
  const std::string crashed = "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Segmentation fault. \n";
  const auto failures = this->read(write("b.log", worker + crashed)).logs.at(0).failures;
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].message == crashed.substr(0, crashed.size() - 1));
}

TEST_CASE_METHOD(Files, "a torchrun error file is parsed") {
  const std::string path =
      write("0/error.json",
            R"({"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "Traceback (most recent call )"
            R"(last):\n  File \"a.py\", line 3, in f\nValueError: x\n", "timestamp": "1"}}})");
  const FilesRead read = this->read(path);
  REQUIRE(read.logs.at(0).failures.size() == 1);
  CHECK(read.logs[0].failures[0].message == "ValueError: x");
  CHECK(this->read(write("1/error.json", "{\"message\": 3}")).logs.at(0).failures.empty());
}

TEST_CASE_METHOD(Files, "only the last of several attempts is read") {
  write("run/attempt_0/0/stderr.log", "a\n");
  write("run/attempt_1/0/stderr.log", "a\nb\n");
  write("other/attempt_0/0/stderr.log", "a\nb\nc\n");
  const FilesRead read = this->read(directory.path());
  REQUIRE(read.logs.size() == 2);
  CHECK(read.logs[0].lines == 3);
  CHECK(read.logs[1].lines == 2);
}

TEST_CASE_METHOD(Files, "files that cannot be read are listed with the reason") {
  const std::vector<std::string> missing = {directory.path() + "/none"};
  CHECK_THAT(find_log_inputs(missing).error().message, Catch::Contains("there is no file or directory"));
  const std::vector<std::string> empty = {directory.path()};
  CHECK_THAT(find_log_inputs(empty).error().message, Catch::Contains("there are no files"));
  const std::vector<LogInput> binary = {{write("x.bin", std::string(10, '\1')), {}, true}};
  CHECK_THAT(read_log_inputs(binary).error().message, Catch::Contains("is no log"));
}

}  // namespace
}  // namespace ddp::launcher
