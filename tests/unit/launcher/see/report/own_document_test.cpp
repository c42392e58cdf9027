#include "launcher/see/report/own_document.h"

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

constexpr const char* kSummary = "{\n  \"schema\": 12,\n  \"version\": \"0.1.0\",\n  \"run_id\": \"a\"";
constexpr const char* kReport =
    "<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n<meta name=generator content=ddplaunch>\n";
constexpr const char* kTrace =
    "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1000000000,\"tid\":0,\"name\":"
    "\"process_name\",\"args\":{\"name\":\"job a\"}},";

constexpr const char* kEventLog = "{\"time\":\"2026-11-27T02:46:27.123Z\",\"event\":\"job_started\",\"run_id\":";

}  // namespace

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
