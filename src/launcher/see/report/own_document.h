// Recognizes files that ddplaunch has written, so that no other file is overwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddp::launcher {

enum class Document : std::uint8_t {
  any,  // written only where the launcher or its user expects no other file
  summary,
  report,
  trace,
  port_file,
  event_log
};

// These many bytes at the beginning of a file are enough to recognize it.
inline constexpr std::size_t kDocumentHead = 4096;

// This line identifies a report.
inline constexpr std::string_view kReportMark = "<meta name=generator content=ddplaunch>";

// `head` is the beginning of a file. Returns whether ddplaunch has written such a document, perhaps only a part of it.
// An empty file is no document, but nothing is lost with it, so the result is true. A compressed head is decompressed.
bool is_own_document(Document document, std::string_view head);

// Returns such as "a summary".
std::string name_of(Document document);

}  // namespace ddp::launcher
