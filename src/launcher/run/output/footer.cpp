#include "launcher/run/output/footer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "launcher/limits.h"
#include "launcher/run/output/terminal_text.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kEraseBelow = "\x1b[J";
constexpr std::string_view kNoColor = "\x1b[0m";

std::string up(std::size_t rows) {
  return rows == 0 ? "" : "\x1b[" + std::to_string(rows) + "A";
}

std::string to_column(std::size_t column) {
  return column == 0 ? "\r" : "\x1b[" + std::to_string(column + 1) + "G";
}

}  // namespace

void Footer::set(std::vector<std::string> lines) {
  if (lines.size() > limits::kFooterLines) lines.resize(limits::kFooterLines);
  for (std::string& line : lines) line.resize(std::min(line.size(), limits::kFooterLineBytes));
  lines_ = std::move(lines);
}

std::string Footer::draw(const CursorPlace& cursor, TerminalSize size) {
  const bool is_wrapped = cursor.column && *cursor.column >= size.columns;
  const std::size_t taken = cursor.is_at_line_start ? 1 : 2;
  if (lines_.empty() || !cursor.column || is_wrapped || size.rows <= taken) return "";
  const std::size_t rows = std::min(lines_.size(), size.rows - taken);
  std::string bytes = cursor.is_at_line_start ? "\r" : "\r\n";
  bytes += kEraseBelow;
  for (std::size_t i = 0; i < rows; ++i) {
    if (i > 0) bytes += "\r\n";
    const std::string line = fit_to_columns(lines_[i], size.columns);
    bytes += line;
    if (line.find('\x1b') != std::string::npos) bytes += kNoColor;
  }
  bytes += up(cursor.is_at_line_start ? rows - 1 : rows) + to_column(*cursor.column);
  drawn_ = lines_;
  cursor_ = cursor;
  return bytes;
}

std::string Footer::erase() {
  if (!is_shown()) return "";
  drawn_.clear();
  // A key that the user has pressed may stand at the beginning of the line, and stays there.
  if (cursor_.is_at_line_start) return std::string(kEraseBelow);
  return "\r\n" + std::string(kEraseBelow) + up(1) + to_column(cursor_.column.value_or(0));
}

}  // namespace ddp::launcher
