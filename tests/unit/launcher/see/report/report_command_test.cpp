#include "launcher/see/report/report_command.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;
using Lines = std::vector<std::string>;

namespace {

const std::string kStart =
    R"({"time":"2026-11-21T08:43:22.123Z","event":"job_started","run_id":"ID","node":"a","arguments":["x"]})";
const std::string kEnd =
    R"({"time":"2026-11-21T08:43:23.123Z","event":"job_ended","run_id":"ID","node":"a","exit_code":0})";

std::string file_in(const TemporaryDirectory& directory, const std::string& name) {
  return directory.path() + "/" + name;
}

std::string of_run(std::string line, const std::string& id) {
  return line.replace(line.find("ID"), 2, id);
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the events of one selected run are read from an event log") {
  const TemporaryDirectory directory;
  const std::string log = file_in(directory, "log");
  std::ofstream(log) << of_run(kStart, "r1") << "\ngarb\n"
                     << of_run(kStart, "r2") << "\n"
                     << of_run(kEnd, "r2").substr(0, 90);
  CHECK(read_event_log(log, "r1").value() == Lines{of_run(kStart, "r1"), "garb"});
  CHECK(read_event_log(log, "r2").value() == Lines{of_run(kStart, "r2"), of_run(kEnd, "r2").substr(0, 90)});
  CHECK(read_event_log(log, "").value().size() == 4);
  CHECK(read_event_log(log, "r3").value().empty());
}

TEST_CASE("only the last runs of an event log with many runs are kept") {
  const TemporaryDirectory directory;
  const std::string log = file_in(directory, "log");
  std::ofstream file(log);
  for (int i = 0; i < 100; ++i) file << of_run(kStart, "r" + std::to_string(i)) << "\n";
  file.close();
  const Lines lines = read_event_log(log, "").value();
  CHECK(lines.size() == 4);
  CHECK(lines.back() == of_run(kStart, "r99"));
}

TEST_CASE("ddplaunch report writes the report or explains why it cannot") {
  const TemporaryDirectory directory;
  const std::string log = file_in(directory, "run.jsonl");
  std::ofstream(log) << of_run(kStart, "r1") << "\n" << of_run(kEnd, "r1") << "\n";
  Log quiet({.level = LogLevel::answer});
  std::string printed;
  const auto print = [&](const std::string& text) {
    printed = text;
    return 0;
  };
  ReportOptions options;
  options.event_logs = {log};
  options.output = file_in(directory, "run.html");
  CHECK(run_report_command(options, quiet, print) == 0);
  CHECK(content_of(options.output).find("The job succeeded.") != std::string::npos);
  CHECK(printed.empty());
  options.output = "-";
  CHECK(run_report_command(options, quiet, print) == 0);
  CHECK(printed.starts_with("<!DOCTYPE html>"));
  options.event_logs = {log, log};
  CHECK(run_report_command(options, quiet, print) == 0);
  CHECK(printed.find("Two runs side by side") != std::string::npos);
  options.event_logs = {log};
  options.run_id = "r2";
  CHECK(run_report_command(options, quiet, print) == 125);
  options.run_id = "";
  options.output = file_in(directory, "no/run.html");
  CHECK(run_report_command(options, quiet, print) == 125);
  options.event_logs = {log, file_in(directory, "none")};
  CHECK(run_report_command(options, quiet, print) == 125);
  options.event_logs = {file_in(directory, "")};  // a folder
  CHECK(run_report_command(options, quiet, print) == 125);
}

TEST_CASE("a report does not overwrite its event log under any name") {
  const TemporaryDirectory directory;
  const std::string log = file_in(directory, "run.jsonl");
  const std::string content = of_run(kStart, "r1") + "\n" + of_run(kEnd, "r1") + "\n";
  std::ofstream(log) << content;
  std::filesystem::create_symlink("run.jsonl", file_in(directory, "link"));
  Log quiet({.level = LogLevel::answer});
  ReportOptions options;
  options.event_logs = {log};
  for (const char* name : {"run.jsonl", "./run.jsonl", "link"}) {
    options.output = file_in(directory, name);
    CHECK(run_report_command(options, quiet, [](const std::string&) { return 0; }) == 125);
    CHECK(content_of(log) == content);
  }
}
