#include "launcher/see/report/html/html_text.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/printable.h"
#include "base/text.h"
#include "launcher/see/view/short_figures.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kMostLinks = 16;

}  // namespace

std::string html_text(std::string_view text) {
  constexpr std::array<std::pair<char, std::string_view>, 5> kEscapes = {
      {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}}};
  std::string result;
  for (const char c : base::printable(text)) {
    const auto* escape = std::ranges::find(kEscapes, c, &std::pair<char, std::string_view>::first);
    escape == kEscapes.end() ? result += c : result += escape->second;
  }
  return result;
}

std::string html_lines(std::span<const std::string> lines) {
  std::string result;
  for (const std::string& line : lines) result += html_text(line) + "\n";
  return result;
}

std::string json_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : base::printable(text)) {
    if (c == '"' || c == '\\') {
      result += std::string("\\") + c;
    } else if (c == '<' || c == '>' || c == '&') {
      result += "\\u00" + base::escaped(c).substr(2);
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string seconds_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "–";
  if (seconds == 0) return "0 s";
  if (seconds < 0.9995e-3) return printed("%.0f µs", std::max(seconds * 1e6, 1.0));
  if (seconds < 9.995e-3) return printed("%.2f ms", seconds * 1e3);
  if (seconds < 0.0995) return printed("%.1f ms", seconds * 1e3);
  if (seconds < 0.9995) return printed("%.0f ms", seconds * 1e3);
  return base::human_duration(std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(seconds, 9e9) * 1e9)));
}

std::string rate_text(double bytes_per_second) {
  if (bytes_per_second >= 0.9995e9) return printed("%.3g GB/s", bytes_per_second / 1e9);
  if (bytes_per_second >= 0.9995e6) return printed("%.3g MB/s", bytes_per_second / 1e6);
  return printed("%.3g kB/s", bytes_per_second / 1e3);
}

std::string share_text(double part, double whole) {
  if (!(whole > 0)) return "–";
  const double percent = 100 * part / whole;
  return printed(percent > 0 && percent < 0.95 ? "%.1f %%" : "%.0f %%", percent);
}

std::string plain_number(double number) {
  if (!std::isfinite(number)) return "0";
  std::string text = printed("%.4f", number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string table_head(std::span<const std::string_view> names) {
  std::string html = "<thead><tr>";
  for (const std::string_view name : names) {
    const bool is_number = name.starts_with('#');
    html += std::string("<th scope=col") + (is_number ? " class=n>" : ">") + html_text(name.substr(is_number ? 1 : 0)) +
            "</th>";
  }
  return html + "</tr></thead>\n";
}

std::string number_cell(double value, const std::string& text) {
  return "<td class=n data-v=\"" + printed("%.9g", std::isfinite(value) ? value : 0) + "\">" + html_text(text) +
         "</td>";
}

std::string text_cell(std::string_view text) {
  return "<td>" + html_text(text) + "</td>";
}

std::string rank_link(int rank) {
  const std::string number = std::to_string(rank);
  return "<a href=\"#rank-" + number + "\">rank " + number + "</a>";
}

std::string rank_links(std::span<const int> ranks) {
  if (ranks.size() == 1) return rank_link(ranks.front());
  if (ranks.size() > kMostLinks) return "ranks " + base::rank_list(ranks);
  std::string text = "ranks ";
  for (const int rank : ranks) {
    const std::string number = std::to_string(rank);
    text += (rank == ranks.front() ? "" : ", ") + ("<a href=\"#rank-" + number + "\">" + number + "</a>");
  }
  return text;
}

}  // namespace ddp::launcher
