#include "launcher/see/report/own_document.h"

#include <zlib.h>

#include <algorithm>
#include <array>

namespace ddp::launcher {
namespace {

constexpr std::string_view kGzip = "\x1f\x8b";

// Returns the beginning of the text, or an empty string if it is damaged.
std::string decompressed(std::string_view head) {
  z_stream stream{};
  constexpr int kGzipWindow = MAX_WBITS + 16;
  if (::inflateInit2(&stream, kGzipWindow) != Z_OK) return "";
  std::array<char, kDocumentHead> buffer;
  // The library changes no input; its interface is older than const.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(head.data()));
  stream.avail_in = static_cast<uInt>(head.size());
  stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
  stream.avail_out = static_cast<uInt>(buffer.size());
  ::inflate(&stream, Z_SYNC_FLUSH);
  ::inflateEnd(&stream);
  return {buffer.data(), buffer.size() - stream.avail_out};
}

// Returns whether the text begins with these parts, in this order, with digits or spaces between them.
bool begins_with(std::string_view text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    text = text.substr(std::min(text.size(), text.find_first_not_of(" \n\r\t0123456789")));
    if (!text.starts_with(part)) return false;
    text.remove_prefix(part.size());
  }
  return true;
}

}  // namespace

bool is_own_document(Document document, std::string_view head) {
  if (head.empty() || document == Document::any) return true;
  if (head.starts_with(kGzip))
    return document == Document::trace && is_own_document(document, decompressed(head) + " ");
  switch (document) {
    case Document::any:
      return true;
    case Document::summary:
      return begins_with(head, {"{", "\"schema\":", ",", "\"version\":"}) && head.find("\"run_id\"") != head.npos;
    case Document::report:
      return head.starts_with("<!DOCTYPE html>") && head.find(kReportMark) != head.npos;
    case Document::trace:
      return begins_with(head, {R"({"displayTimeUnit":"ms","traceEvents":[)", R"({"ph":"M","pid":)", R"(,"tid":)",
                                R"(,"name":"process_name","args":{"name":"job )"});
    case Document::event_log:
      return begins_with(head, {R"({"time":")", "-", "-", "T", ":", ":", ".", R"(Z","event":")"});
    case Document::port_file:
      return head.find_first_not_of("0123456789\n") == head.npos;
  }
  return false;
}

std::string name_of(Document document) {
  switch (document) {
    case Document::any:
      break;
    case Document::summary:
      return "a summary";
    case Document::report:
      return "a report";
    case Document::trace:
      return "a trace";
    case Document::port_file:
      return "a port file";
    case Document::event_log:
      return "an event log";
  }
  return "a file";
}

}  // namespace ddp::launcher
