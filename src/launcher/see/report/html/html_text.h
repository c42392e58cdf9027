// Turns values into pieces of HTML. All texts of a report come from outside (workers, nodes, files), so every one of
// them passes through html_text() or json_text(). The functions are pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ddp::launcher {

// Returns the text on one line, safe between tags and in quoted attributes. Bytes that are not printable UTF-8 are
// shown as "\x1b".
std::string html_text(std::string_view text);

// Returns one line per text, for <pre>.
std::string html_lines(std::span<const std::string> lines);

// Returns a JSON string with its quotes, safe in a <script> element.
std::string json_text(std::string_view text);

// Returns text such as "310 µs", "85 ms" or "3 min 12 s".
std::string seconds_text(double seconds);

// Returns text such as "1.2 GB/s". The units are powers of 1000, as those of nccl-tests.
std::string rate_text(double bytes_per_second);

// Returns text such as "37 %", or "–" if there is no whole.
std::string share_text(double part, double whole);

// Returns a number for an attribute or a style, such as "12.5".
std::string plain_number(double number);

// Returns the head of a table. The names of columns of numbers begin with '#', which is not shown.
std::string table_head(std::span<const std::string_view> names);

// Returns a table cell. Scripts sort by `value`.
std::string number_cell(double value, const std::string& text);
std::string text_cell(std::string_view text);

// Returns the name of a rank as a link to its row: "rank 3".
std::string rank_link(int rank);
// Returns text such as "rank 3" or "ranks 3, 5-7", whose first ranks are links.
std::string rank_links(std::span<const int> ranks);

}  // namespace ddp::launcher
