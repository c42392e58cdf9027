// TraceText writes events in the Trace Event Format of Chrome, which Perfetto reads, as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddp::launcher {

// Returns the text as a JSON string with its quotes. Bytes that cannot be printed are shown as "\x1b".
std::string json_string(std::string_view text);

// The caller gives all members of an event between begin() and end(). Members named `..._json` are JSON already.
class TraceText {
 public:
  // `origin` is the time at which the trace begins: CLOCK_MONOTONIC in nanoseconds. Earlier times count as the origin.
  explicit TraceText(std::uint64_t origin) : origin_(origin) {}

  TraceText& begin(char kind, int process, int thread);
  TraceText& name_json(std::string_view name) { return member("name", name); }
  TraceText& category(std::string_view name);  // a word that needs no escapes
  TraceText& time(std::uint64_t at);
  TraceText& duration(std::uint64_t nanoseconds);
  TraceText& id(std::uint64_t id);
  // Adds a member of the event, or of its arguments after begin_args().
  TraceText& member(std::string_view key, std::string_view json);
  TraceText& member(std::string_view key, std::uint64_t number);
  TraceText& begin_args();
  void end();

  std::uint64_t since_origin(std::uint64_t at) const { return at < origin_ ? 0 : at - origin_; }
  std::size_t size() const { return text_.size(); }
  // Returns the events that were added since the last call. Each of them begins with the separator that it needs.
  std::string take();

 private:
  void key(std::string_view key);
  void microseconds(std::uint64_t nanoseconds);

  const std::uint64_t origin_;
  std::string text_;
  bool is_first_ = true;
  bool has_args_ = false;
  bool needs_comma_ = false;
};

}  // namespace ddp::launcher
