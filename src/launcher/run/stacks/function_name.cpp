#include "launcher/run/stacks/function_name.h"

#include <array>

#include "base/printable.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 10;  // longest part of a name that is read

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

// Returns the position behind the "operator<<" that begins at `at`, or `at` if none begins there.
std::size_t operator_end(std::string_view text, std::size_t at) {
  constexpr std::string_view kWord = "operator";
  if (!text.substr(at).starts_with(kWord) || (at > 0 && is_word(text[at - 1]))) return at;
  const std::size_t end = at + kWord.size();
  if (end < text.size() && is_word(text[end])) return at;
  constexpr std::array<std::string_view, 13> kSigns = {
      "()", "[]", "->*", "->", "<=>", "<<=", ">>=", "<<", ">>", "<=", ">=", "<", ">"};
  for (const std::string_view sign : kSigns) {  // signs that look like brackets, the longest first
    if (text.substr(end).starts_with(sign)) return end + sign.size();
  }
  return end;
}

// Returns the position behind the quoted text that begins at `at`, or `at` if it does not end.
std::size_t quote_end(std::string_view text, std::size_t at) {
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == text[at]) {
      return i + 1;
    }
  }
  return at;
}

// Replaces template arguments of more than `most` bytes by "<...>".
std::string without_template_arguments(std::string_view function, std::size_t most) {
  const std::vector<std::size_t> ends = closing_brackets(function);
  std::string kept;
  for (std::size_t i = 0; i < function.size(); ++i) {
    if (ends[i] == std::string_view::npos) {
      kept += function[i];
      continue;
    }
    const bool leave_out = function[i] == '<' && ends[i] - i - 1 > most;
    kept += leave_out ? "<...>" : function.substr(i, ends[i] - i + 1);
    i = ends[i];
  }
  return kept;
}

// Returns whether the name continues behind the parameters that end before `rest`, as in "train()::{lambda()#1}".
bool is_local(std::string_view rest) {
  if (rest.starts_with(" const")) rest.remove_prefix(6);
  return rest.starts_with("::");
}

}  // namespace

std::string frame_text(std::string_view text, std::size_t most) {
  return base::printable(text, most);
}

std::vector<std::size_t> closing_brackets(std::string_view text) {
  constexpr std::string_view kOpening = "(<[{";
  constexpr std::string_view kClosing = ")>]}";
  std::vector<std::size_t> ends(text.size(), std::string_view::npos);
  std::vector<std::size_t> open;
  bool quotes = true;  // false after a quote that does not end, so that this takes linear time
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t behind = operator_end(text, i);
    if (text.substr(i).starts_with("->")) behind = i + 2;
    if (quotes && (text[i] == '"' || text[i] == '\'')) {
      behind = quote_end(text, i);
      quotes = behind > i;
    }
    if (behind > i) {
      i = behind - 1;
    } else if (kOpening.find(text[i]) != std::string_view::npos) {
      open.push_back(i);
    } else if (const std::size_t kind = kClosing.find(text[i]); kind != std::string_view::npos) {
      // A '<' that is never closed is "less than", and a '>' that closes nothing is "greater than".
      if (kind == 1 && (open.empty() || text[open.back()] != '<')) continue;
      while (!open.empty() && text[open.back()] != kOpening[kind] && text[open.back()] == '<') open.pop_back();
      if (open.empty() || text[open.back()] != kOpening[kind]) continue;
      ends[open.back()] = i;
      open.pop_back();
    }
  }
  return ends;
}

std::string without_parameters(std::string_view function) {
  function = function.substr(0, kMostBytes);
  const std::vector<std::size_t> ends = closing_brackets(function);
  std::string kept;
  bool in_operator = false;  // an operator's name may contain spaces: "operator new", "operator bool"
  for (std::size_t i = 0; i < function.size(); ++i) {
    if (const std::size_t behind = operator_end(function, i); behind > i) {
      kept += function.substr(i, behind - i);
      in_operator = true;
      i = behind - 1;
      continue;
    }
    const std::string_view rest = function.substr(i);
    if (rest.starts_with(" [")) break;  // as in "train [clone .cold]"
    if (function[i] == ' ' && !in_operator) {
      kept.clear();  // removes the return type, or "non-virtual thunk to"
      continue;
    }
    if (ends[i] == std::string_view::npos) {
      kept += function[i];
      continue;
    }
    const std::string_view group = function.substr(i, ends[i] - i + 1);
    i = ends[i];
    if (function[i] != ')') {
      if (!group.starts_with("[abi:")) kept += group;
    } else if (group == "(anonymous namespace)") {
      kept += group;
    } else if (is_local(function.substr(i + 1))) {
      in_operator = false;
      if (function.substr(i + 1).starts_with(" const")) i += 6;
    } else if (!kept.empty()) {
      break;
    }
  }
  return kept.empty() ? std::string(function) : kept;
}

std::string short_function_name(std::string_view function, std::size_t most) {
  std::string name = frame_text(function, kMostBytes);
  if (name.size() <= most) return name;
  name = without_parameters(name);
  for (const std::size_t arguments : {std::size_t{16}, std::size_t{3}}) {
    if (name.size() <= most) return name;
    name = without_template_arguments(name, arguments);
  }
  if (name.size() <= most) return name;
  const std::vector<std::size_t> ends = closing_brackets(name);
  for (std::size_t i = 0; i < name.size(); i = ends[i] == std::string_view::npos ? i + 1 : ends[i]) {
    if (name.compare(i, 2, "::") == 0 && name.size() - i + 3 <= most) return "..." + name.substr(i);
  }
  return frame_text(name, most);
}

}  // namespace ddp::launcher
