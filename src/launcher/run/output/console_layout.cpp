#include "launcher/run/output/console_layout.h"

#include "launcher/run/output/terminal_text.h"

namespace ddp::launcher {
namespace {

constexpr int kSeveral = -1;      // the owner of a progress bar that several ranks show
constexpr int kMostHidden = 100;  // most updates of other ranks' bars while the shown bar gets none
constexpr std::string_view kWipe = "\x1b[K";
constexpr std::string_view kContinued = "... ";

}  // namespace

void ConsoleLayout::leave_line(std::string& out) {
  if (cursor_ == Cursor::after_return && terminal_) {
    out += kWipe;
  } else if (cursor_ != Cursor::line_start) {
    out += '\n';
  }
  cursor_ = Cursor::line_start;
}

// Bars of several ranks would flicker on one line. One is shown as long as its rank updates it.
bool ConsoleLayout::hides(const LinePiece& other) {
  if (cursor_ != Cursor::after_return || !other.text.ends_with('\r')) return false;
  const bool is_of_one_rank = terminal_ && owner_ != kSeveral;
  if (other.text == "\r" || (is_of_one_rank && ++hidden_ < kMostHidden)) return true;
  hidden_ = 0;
  return false;
}

void ConsoleLayout::append(const OutputLine& line, std::string& out) {
  const LinePiece& piece = line.piece;
  const int owner = line.times > 1 ? kSeveral : line.stream;
  const bool own = cursor_ != Cursor::line_start && owner_ == owner;
  const bool continues = own && !piece.begins;
  if (!own && hides(piece)) return;
  if (own) hidden_ = 0;
  if (!continues && !(own && cursor_ == Cursor::after_return)) leave_line(out);
  // This ends a line that a line of another stream has ended already.
  if (!piece.begins && !continues && (piece.is_only_an_end() || piece.text == "\r")) return;
  const std::size_t begin = out.size();
  const bool is_inside = continues && cursor_ == Cursor::inside;
  if (!continues && piece.text != "\r") begin_line(line, out);
  out += piece.text;
  owner_ = owner;
  follow_cursor(piece, std::string_view(out).substr(begin), is_inside ? column_ : 0);
}

void ConsoleLayout::begin_line(const OutputLine& line, std::string& out) {
  if (line.tagged) out += line.times > 1 ? tag_.of_ranks(line.ranks) : tag_.of_rank(line.local_rank);
  if (!line.piece.begins) out += kContinued;
}

void ConsoleLayout::follow_cursor(const LinePiece& piece, std::string_view shown, std::optional<std::size_t> from) {
  if (terminal_) {
    has_moved_cursor_ = has_moved_cursor_ || moves_cursor(piece.text);
    column_ = piece.ends || !from ? std::nullopt : column_after(shown, *from);
  }
  if (!piece.ends) {
    cursor_ = Cursor::inside;
  } else {
    cursor_ = piece.text.back() == '\r' ? Cursor::after_return : Cursor::line_start;
  }
}

void ConsoleLayout::append_own(std::string_view line, std::string& out) {
  leave_line(out);
  out += line;
  out += '\n';
}

CursorPlace ConsoleLayout::cursor() const {
  if (has_moved_cursor_) return {false, std::nullopt};
  if (cursor_ == Cursor::inside) return {false, column_};
  return {cursor_ == Cursor::line_start, 0};
}

void ConsoleLayout::finish(std::string& out) {
  // The last progress bar stays visible.
  if (cursor_ != Cursor::line_start) out += '\n';
  cursor_ = Cursor::line_start;
}

}  // namespace ddp::launcher
