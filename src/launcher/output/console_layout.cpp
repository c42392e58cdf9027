#include "launcher/output/console_layout.h"

namespace ddp::launcher {
namespace {

constexpr int kSeveral = -1;  // the owner of a progress bar that several ranks show
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

void ConsoleLayout::append(const OutputLine& line, std::string& out) {
  const LinePiece& piece = line.piece;
  const int owner = line.times > 1 ? kSeveral : line.stream;
  const bool own = cursor_ != Cursor::line_start && owner_ == owner;
  const bool continues = own && !piece.begins;
  if (!own && cursor_ == Cursor::after_return && piece.text == "\r") return;  // it would wipe another's bar
  if (!continues && !(own && cursor_ == Cursor::after_return)) leave_line(out);
  // The end of a line that somebody else's line has ended already.
  if (!piece.begins && !continues && (piece.is_only_an_end() || piece.text == "\r")) return;
  if (!continues && piece.text != "\r") {
    if (line.tagged) out += line.times > 1 ? tag_.of_ranks(line.ranks) : tag_.of_rank(line.local_rank);
    if (!piece.begins) out += kContinued;
  }
  out += piece.text;
  owner_ = owner;
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

void ConsoleLayout::finish(std::string& out) {
  // A last progress bar stays to be seen.
  if (cursor_ != Cursor::line_start) out += '\n';
  cursor_ = Cursor::line_start;
}

}  // namespace ddp::launcher
