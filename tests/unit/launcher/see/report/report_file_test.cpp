#include "launcher/see/report/report_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "support/catch.h"
#include "support/stderr_to.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;
using ddp::base::UniqueFd;
namespace fs = std::filesystem;

namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

std::string why_not(const std::string& path, const std::string& text = "new") {
  const auto failure = write_report(path, text, "--summary=" + path, Document::any);
  return failure ? failure->message : "";
}

std::string what_stands_against(const std::string& path) {
  const auto failure = check_report(path, "--summary=" + path, Document::any);
  return failure ? failure->message : "";
}

std::ptrdiff_t entries(const std::string& directory) {
  return std::distance(fs::directory_iterator(directory), fs::directory_iterator());
}

constexpr const char* kSummary = "{\n  \"schema\": 12,\n  \"version\": \"0.1.0\",\n  \"run_id\": \"a\"";
constexpr const char* kReport =
    "<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n<meta name=generator content=ddplaunch>\n";
constexpr const char* kTrace =
    "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1000000000,\"tid\":0,\"name\":"
    "\"process_name\",\"args\":{\"name\":\"job a\"}},";

constexpr const char* kEventLog = "{\"time\":\"2026-11-27T02:46:27.123Z\",\"event\":\"job_started\",\"run_id\":";

}  // namespace

TEST_CASE("a report file is created or replaced atomically") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/s.json";
  CHECK(what_stands_against(path).empty());
  CHECK(entries(directory.path()) == 0);
  CHECK(why_not(path, "one").empty());
  CHECK(contents(path) == "one");
  // A reader that has the old file open still sees its content: the file is replaced, not overwritten.
  std::ifstream reader(path);
  CHECK(what_stands_against(path).empty());
  CHECK(why_not(path, "two").empty());
  CHECK(std::string(std::istreambuf_iterator<char>(reader), {}) == "one");
  CHECK(contents(path) == "two");
  CHECK(entries(directory.path()) == 1);
}

TEST_CASE("a user's file is never replaced, also through a link, before or after the job") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/train.py";
  const std::string link = directory.path() + "/summary.json";
  std::ofstream(path) << "import torch\n";
  fs::create_symlink(path, link);
  for (const std::string& name : {path, link}) {
    const std::string what = "--summary=" + name;
    for (const auto& failure :
         {check_report(name, what, Document::summary), write_report(name, "new", what, Document::summary)}) {
      REQUIRE(failure);
      CHECK(failure->message == what +
                                    " would overwrite a file that is not a summary of ddplaunch. Use another name, or "
                                    "remove the file.");
    }
  }
  CHECK(contents(path) == "import torch\n");
  CHECK(fs::is_symlink(link));
  CHECK_FALSE(check_report("/dev/null", "--summary", Document::summary));
  std::ofstream(path, std::ios::trunc).close();  // nothing is lost with an empty file
  CHECK_FALSE(write_report(link, "new", "--summary", Document::summary));
  CHECK(contents(path) == "new");
}

TEST_CASE("a new report keeps the permissions of the old one and follows a link") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/s.json";
  put(path, "old");
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("s.json", directory.path() + "/link");
  CHECK(why_not(directory.path() + "/link").empty());
  CHECK(fs::is_symlink(directory.path() + "/link"));
  CHECK(contents(path) == "new");
  CHECK(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("a report's path may be relative and as long as the file system allows") {
  const TemporaryDirectory directory;
  const fs::path before = fs::current_path();
  fs::current_path(directory.path());
  CHECK(why_not("s.json").empty());
  CHECK(why_not(std::string(255, 's')).empty());
  const std::string too_long(256, 's');
  CHECK(what_stands_against(too_long) == "cannot write --summary=" + too_long + ": File name too long.");
  CHECK(why_not(too_long) == what_stands_against(too_long));
  fs::current_path(before);
  CHECK(contents(directory.path() + "/s.json") == "new");
}

TEST_CASE("a path that cannot hold a report is reported before and after the job") {
  const TemporaryDirectory directory;
  const std::string missing = directory.path() + "/no/s.json";
  CHECK(what_stands_against(missing) == "cannot write --summary=" + missing + ": No such file or directory.");
  CHECK(why_not(missing) == what_stands_against(missing));
  CHECK(what_stands_against(directory.path()) == "cannot write --summary=" + directory.path() + ": Is a directory.");
  CHECK(why_not(directory.path()) == what_stands_against(directory.path()));
  CHECK(what_stands_against("/proc/s.json").starts_with("cannot write --summary=/proc/s.json: "));
  CHECK(entries(directory.path()) == 0);
}

TEST_CASE("a full disk is reported and leaves no partial report") {
  CHECK(why_not("/dev/full") == "cannot write --summary=/dev/full: No space left on device.");
  CHECK(fs::is_character_file("/dev/full"));
}

TEST_CASE("a report that cannot be written leaves the old one unchanged") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/s.json";
  put(path, "old");
  fs::create_directory(directory.path() + "/in");
  fs::create_symlink(path, directory.path() + "/in/link");
  // The directory of the link does not matter, but the directory of the file does.
  CHECK(why_not(directory.path() + "/in/link").empty());
  CHECK(contents(path) == "new");
  if (::geteuid() == 0) return;  // root may write everywhere
  fs::permissions(directory.path(), fs::perms::owner_read | fs::perms::owner_exec);
  CHECK_FALSE(what_stands_against(path).empty());
  CHECK_FALSE(why_not(path, "newer").empty());
  fs::permissions(directory.path(), fs::perms::owner_all);
  CHECK(contents(path) == "new");
}

TEST_CASE("a FIFO without a reader does not block a report, and one with a reader gets it") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/fifo";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(what_stands_against(path).empty());  // a reader may still open it
  CHECK(why_not(path) == "cannot write --summary=" + path + ": no process reads it. Start its reader first.");
  const UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK));
  CHECK(why_not(path).empty());
  std::string got(10, '\0');
  CHECK(::read(reader.get(), got.data(), got.size()) == 3);
  CHECK(why_not(path, std::string(1 << 20, 'x')) == "cannot write --summary=" + path + ": its reader is too slow.");
  CHECK(fs::is_fifo(path));
}

TEST_CASE("a report to the launcher's own output stream is appended and does not replace the file") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/err";
  for (const std::string& name : {std::string("/dev/stderr"), path}) {
    put(path, "");
    {
      const StderrTo redirection(path);
      StderrTo::say("before\n");
      CHECK(what_stands_against(name).empty());
      CHECK(why_not(name, "report\n").empty());
      StderrTo::say("after\n");
    }
    CHECK(contents(path) == "before\nreport\nafter\n");
  }
  CHECK(entries(directory.path()) == 1);
  CHECK(fs::is_symlink("/dev/stderr"));
}

TEST_CASE("a cycle of symbolic links is not replaced") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/circle";
  std::filesystem::create_symlink("circle", path);
  const std::string expected = "cannot write --summary: Too many levels of symbolic links";
  for (const auto& failure :
       {check_report(path, "--summary", Document::any), write_report(path, "text", "--summary", Document::any)}) {
    REQUIRE(failure);
    CHECK_THAT(failure->message, Catch::StartsWith(expected));
  }
  CHECK(std::filesystem::is_symlink(path));
}

TEST_CASE("two options that name the same file are an error under any names") {
  const TemporaryDirectory directory;
  const auto in = [&](const std::string& name) { return directory.path() + "/" + name; };
  const auto mistake = [](const std::string& one, const std::string& other, bool are_appended = false) {
    const auto failure =
        check_distinct(std::vector<OutputFile>{{"--a", one, are_appended}, {"--b", other, are_appended}});
    return failure ? failure->message : "";
  };
  CHECK(mistake(in("x"), in("y")).empty());
  CHECK(mistake("", "").empty());
  fs::create_symlink("x", in("link"));
  fs::create_directory(in("dir"));
  for (const bool exists : {false, true}) {
    if (exists) put(in("x"), "old");
    CHECK(mistake(in("x"), in("x")) == "--b=" + in("x") + " would overwrite the file of --a. Use another file.");
    CHECK_FALSE(mistake(in("x"), in("dir/../x")).empty());
    CHECK_FALSE(mistake(in("link"), in("x")).empty());
    CHECK(mistake(in("x"), in("x"), true).empty());
    CHECK(mistake(in("x"), in("y")).empty());
  }
  CHECK(mistake("/dev/null", "/dev/null").empty());
  const StderrTo redirection(in("x"));
  CHECK(mistake("/dev/stderr", "/dev/stderr").empty());
}

TEST_CASE("only documents that ddplaunch has written are replaced") {
  struct Case {
    const char* head;
    bool summary;
    bool report;
    bool trace;
    bool port;
    bool events;
  };
  for (const Case& one : {
           Case{"", true, true, true, true, true},
           {kSummary, true, false, false, false, false},
           {kReport, false, true, false, false, false},
           {kTrace, false, false, true, false, false},
           {kEventLog, false, false, false, false, true},
           {"{\"time\":\"today\",\"event\":\"job_started\"", false, false, false, false, false},
           {"{\"event\":\"job_started\",\"time\":\"2026-11-27T02:46:27.123Z\"", false, false, false, false, false},
           {"29500\n", false, false, false, true, false},
           {"import torch\n", false, false, false, false, false},
           {"{}", false, false, false, false, false},
           {"{\"schema\": 1}", false, false, false, false, false},
           {"{\"run_id\": 3, \"schema\": 1, \"version\": 2}", false, false, false, false, false},
           {"<!DOCTYPE html>\n<html><body>ddplaunch</body></html>", false, false, false, false, false},
           // This is how the traces of PyTorch and of Chrome begin.
           {"{\"schemaVersion\": 1, \"deviceProperties\": [], \"traceEvents\": [", false, false, false, false, false},
           {"{\"traceEvents\":[{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\"", false, false, false, false,
            false},
           {"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[{\"ph\":\"X\",\"pid\":1", false, false, false, false, false},
           {"\x7f"
            "ELF",
            false, false, false, false, false},
           {"\x1f\x8b\x08 no compressed text", false, false, false, false, false},
           {"\x1f\x8b", false, false, false, false, false},
           {" ", false, false, false, false, false},
           {"8080 is my port\n", false, false, false, false, false},
       }) {
    CAPTURE(one.head);
    CHECK(is_own_document(Document::summary, one.head) == one.summary);
    CHECK(is_own_document(Document::report, one.head) == one.report);
    CHECK(is_own_document(Document::trace, one.head) == one.trace);
    CHECK(is_own_document(Document::port_file, one.head) == one.port);
    CHECK(is_own_document(Document::event_log, one.head) == one.events);
    CHECK(is_own_document(Document::any, one.head));
  }
}
