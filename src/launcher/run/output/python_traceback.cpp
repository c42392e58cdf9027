#include "launcher/run/output/python_traceback.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kFrame = "  File \"";
constexpr std::string_view kFrameOfIpython = "File ";
constexpr std::string_view kSideOfRich = "│";
constexpr std::string_view kOfLoader = "Original ";  // PyTorch's data loader quotes the traceback of its worker
constexpr std::array kLinks = {std::string_view("During handling of the above exception"),
                               std::string_view("The above exception was the direct cause")};
constexpr std::array kLibraries = {
    std::string_view("/site-packages/"), std::string_view("/dist-packages/"), std::string_view("/lib/python"),
    std::string_view("/lib64/python"),   std::string_view("<frozen "),
};

// Removes a line from the front of `text`, and returns it without its end.
std::string_view next_line(std::string_view& text) {
  std::string_view line = base::take_line(text);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string without_colours(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const std::size_t escape = std::min(text.find("\x1b["), text.size());
    plain += text.substr(0, escape);
    text.remove_prefix(escape);
    if (!text.empty()) text.remove_prefix(std::min(text.find_first_of("mK", 2), text.size() - 1) + 1);
  }
  return plain;
}

// Turns `File "train.py", line 83, in train` into "train.py:83 in train". faulthandler writes no comma before "in".
// Returns an empty string if the line is no frame.
std::string place_in(std::string_view line) {
  if (!line.starts_with(kFrame)) return "";
  line.remove_prefix(kFrame.size());
  constexpr std::string_view kLine = "\", line ";
  const std::size_t at = line.find(kLine);
  if (at == std::string_view::npos) return "";
  const std::string file(line.substr(0, at));
  line.remove_prefix(at + kLine.size());
  const std::size_t number = std::min(line.find_first_not_of("0123456789"), line.size());
  const std::size_t function = line.find(" in ");
  return file + ":" + std::string(line.substr(0, number)) +
         (function == std::string_view::npos ? "" : std::string(line.substr(function)));
}

// Returns a place if the text is one in the form of rich ("train.py:83 in train") or of IPython ("train.py:83, in
// train(x)"). Otherwise returns an empty string.
std::string plain_place(std::string_view text) {
  const std::size_t colon = text.find(':', text.starts_with("<") ? 0 : text.rfind('/') == text.npos ? 0 : 1);
  if (colon == 0 || colon == std::string_view::npos) return "";
  const std::size_t end = std::min(text.find_first_not_of("0123456789", colon + 1), text.size());
  if (end == colon + 1) return "";
  std::string_view rest = text.substr(end);
  if (rest.starts_with(',')) rest.remove_prefix(1);
  if (!rest.empty() && !rest.starts_with(" in ")) return "";
  return std::string(text.substr(0, end)) + std::string(rest.substr(0, rest.find('(')));
}

// Reads a place of rich, which may continue on the next line. `begun` is what came before, and is then kept.
std::string rich_place(std::string_view line, std::string& begun) {
  const std::string part = base::trimmed(line, " ");
  const bool is_between_words = part == "in" || part.starts_with("in ") || begun.ends_with(" in");
  const std::string text = begun + (is_between_words ? " " : "") + part;
  std::string place = plain_place(text);
  if (place.find(" in ") == std::string::npos) place.clear();  // its number may continue, too
  begun = place.empty() && text.starts_with('/') ? text : "";
  return place;
}

// How a traceback is written.
struct TracebackForm {
  bool is_rich = false;
  bool is_ipython = false;
  std::string prefix;  // of all lines but the first one
};

TracebackForm form_of(std::string_view header) {
  const std::string_view before = header.substr(0, header.find(kTracebackBegin));
  if (before.find("─") != std::string_view::npos) return {.is_rich = true};
  // IPython's header begins with the name of the exception.
  if (header.ends_with("last)")) return {.is_ipython = true};
  const std::size_t bar = before.find("+ Exception Group ");
  if (bar != std::string_view::npos) return {.prefix = std::string(before.substr(0, bar)) + "| "};
  return {.prefix = std::string(before.substr(0, before.find(kOfLoader)))};
}

// Reads one traceback, from the line of its header on. Removes it from `rest`.
std::optional<PythonException> read_exception(std::string_view& rest) {
  const auto [is_rich, is_ipython, prefix] = form_of(next_line(rest));
  PythonException error;
  std::string wrapped;  // the beginning of a place that rich continues on the next line
  while (!rest.empty()) {
    const std::string_view all = rest;
    std::string_view line = next_line(rest);
    if (line.find(kTracebackBegin) != std::string_view::npos) {
      rest = all;
      break;
    }
    if (!line.starts_with(prefix)) {
      if (error.message.empty()) continue;  // another thread's line in between
      rest = all;
      break;
    }
    line.remove_prefix(prefix.size());
    std::string place;
    if (is_rich && line.starts_with(kSideOfRich)) {
      line.remove_prefix(kSideOfRich.size());
      if (line.ends_with(kSideOfRich)) line.remove_suffix(kSideOfRich.size());
      place = rich_place(line, wrapped);
    } else if (is_ipython && line.starts_with(kFrameOfIpython)) {
      place = plain_place(line.substr(kFrameOfIpython.size()));
    } else {
      place = place_in(line);
    }
    if (!error.message.empty()) {
      if (prefix.empty()) {
        rest = all;
        break;
      }
      error.message += "\n" + std::string(line);
    } else if (!place.empty()) {
      if (error.place.empty() || is_library_file(error.place) || !is_library_file(place)) error.place = place;
    } else if (!line.starts_with(' ') && names_exception(line)) {
      error.message = line;
    }
  }
  if (error.message.empty()) return std::nullopt;
  return error;
}

}  // namespace

bool names_exception(std::string_view line) {
  const std::string_view name = line.substr(0, line.find(": "));
  return !name.empty() && name.find_first_of(" \t\"'()[]{}=/") == std::string_view::npos &&
         name.find_first_of("0123456789") != 0 && static_cast<unsigned char>(name[0]) < 0x80;
}

bool is_library_file(std::string_view path) {
  return std::ranges::any_of(kLibraries,
                             [&](std::string_view library) { return path.find(library) != std::string_view::npos; });
}

std::optional<PythonError> last_python_error(std::string_view output) {
  const std::string plain = without_colours(output);
  std::string_view rest = plain;
  std::string_view section;  // begins with the last exception of the chain
  PythonError error;
  bool is_whole = false;
  while (true) {
    const std::size_t begin = rest.find(kTracebackBegin);
    if (begin == std::string_view::npos) break;
    const std::size_t line_begin = begin == 0 ? 0 : rest.rfind('\n', begin - 1) + 1;  // 0 if there is no "\n"
    const std::string_view between = rest.substr(0, begin);
    const bool is_member = between.find("---------------- ") != std::string_view::npos && !error.chain.empty() &&
                           between.find("+") != std::string_view::npos;
    const bool is_linked = is_member || std::ranges::any_of(kLinks, [&](std::string_view link) {
                             return between.find(link) != std::string_view::npos;
                           });
    rest.remove_prefix(line_begin);
    if (is_whole) error.chain.back().text = section.substr(0, section.size() - rest.size());
    section = rest;
    if (!is_linked || error.chain.empty()) {
      error.chain.clear();
      error.text = rest;
    }
    auto one = read_exception(rest);
    is_whole = one.has_value();
    if (!one) continue;
    one->is_member = is_member;
    error.chain.push_back(std::move(*one));
  }
  if (!is_whole) return std::nullopt;
  error.chain.back().text = section;
  error.message = error.chain.back().message;
  error.place = error.chain.back().place;
  return error;
}

std::optional<PythonError> last_cxx_error(std::string_view output) {
  constexpr std::string_view kThrown = "terminate called after throwing an instance of '";
  constexpr std::string_view kWhat = "  what():  ";
  const std::size_t begin = output.rfind(kThrown);
  if (begin == std::string_view::npos) return std::nullopt;
  PythonError error;
  error.text = output.substr(begin);
  std::string_view rest = error.text;
  std::string_view type = next_line(rest).substr(kThrown.size());
  error.message = type.substr(0, type.find('\''));
  if (rest.starts_with(kWhat)) error.message += ": " + std::string(next_line(rest).substr(kWhat.size()));
  error.chain.push_back({.message = error.message, .place = "", .text = error.text});
  return error;
}

std::string place_of_crash(std::string_view stacks) {
  stacks.remove_prefix(std::min(stacks.rfind("Fatal Python error: "), stacks.size()));
  std::string place;
  bool is_current = false;
  while (!stacks.empty()) {
    const std::string_view line = next_line(stacks);
    if (line.ends_with("(most recent call first):")) {
      if (is_current && !place.empty()) break;
      is_current = line.starts_with("Current thread ");
      place.clear();
    }
    const std::string frame = place_in(line);
    if (!frame.empty() && (place.empty() || (is_library_file(place) && !is_library_file(frame)))) place = frame;
  }
  return place;
}

}  // namespace ddp::launcher
