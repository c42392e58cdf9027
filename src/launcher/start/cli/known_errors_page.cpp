#include "launcher/start/cli/known_errors_page.h"

#include <cctype>
#include <span>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "launcher/start/causes/cause_table.h"
#include "launcher/start/cli/help_text.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kLineWidth = 100;

// Chinese paragraphs have one line: a browser shows a break between two characters as a space.
std::string paragraph(const std::string& text, Language language) {
  return (language == Language::chinese ? text : base::join(wrapped(text, kLineWidth), "\n")) + "\n\n";
}

std::string code(std::string_view text) {
  const std::string quote = text.find('`') == std::string_view::npos ? "`" : "``";
  const std::string space = quote.size() > 1 ? " " : "";
  return quote + space + base::trimmed(text) + space + quote;
}

// Returns text in which Markdown finds no emphasis. An underscore within a word is none.
std::string unemphasized(std::string_view text) {
  const auto is_of_word = [&](std::size_t at) {
    return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
  };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_' && !(is_of_word(i - 1) && is_of_word(i + 1))) result += '\\';
    result += text[i];
  }
  return result;
}

std::string section(const Cause& cause, Language language) {
  const bool is_chinese = language == Language::chinese;
  std::string text = "### " + code(cause.patterns[0]) + " {#" + std::string(cause.id) + "}\n\n";
  std::vector<std::string> others;
  for (const std::string_view pattern : std::span(cause.patterns).subspan(1)) {
    if (!pattern.empty()) others.push_back(code(pattern));
  }
  if (!others.empty()) {
    text += paragraph((is_chinese ? "其他写法：" : "Also: ") + base::join(others, is_chinese ? "、" : ", "), language);
  }
  const std::string page(cause.page);
  if (is_chinese) {
    const std::string more = page.empty() ? "" : "[更多](../" + page + ")";
    return text + "**原因。** " + unemphasized(cause.cause_zh) + "\n\n**解决办法。** " + unemphasized(cause.remedy_zh) +
           more + "\n\n";
  }
  const std::string target = page.starts_with("reference/") ? page.substr(10) : "../" + page;
  const std::string more = page.empty() ? "" : " ([more](" + target + "))";
  return text + paragraph("**Cause.** " + unemphasized(cause.cause), language) +
         paragraph("**Remedy.** " + unemphasized(cause.remedy) + more, language);
}

constexpr const char* kIntroduction =
    "This page is for everyone who has the message of a job that failed. Search it for the words of your message, or "
    "let "
    "`ddplaunch explain` [search your log](../how-to/explain-a-log.md). In the messages, `…` stands for any text. "
    "ddplaunch reads the same table, and writes this page from it.";
constexpr const char* kIntroductionZh =
    "训练任务失败时，可以在本页搜索报错里的文字，也可以让 `ddplaunch explain` "
    "[直接分析日志](../how-to/explain-a-log.md)。"
    "报错中的 `…` 表示任意文字。本页由 ddplaunch 使用的同一张表生成。";

}  // namespace

std::string known_errors_page(Language language) {
  const bool is_chinese = language == Language::chinese;
  std::string text = is_chinese ? "# 常见报错\n\n" : "# Known errors\n\n";
  text += paragraph(is_chinese ? kIntroductionZh : kIntroduction, language);
  for (const CauseGroup& group : cause_groups()) {
    text += "## " + std::string(is_chinese ? group.title_zh : group.title) + " {#" + group.anchor + "}\n\n";
    for (const Cause& cause : group.causes()) text += section(cause, language);
  }
  text.pop_back();
  return text;
}

std::string cause_help(const Cause& cause) {
  std::string text;
  for (const std::string_view pattern : cause.patterns) {
    if (!pattern.empty()) text += std::string(pattern) + "\n";
  }
  for (const std::string& line : wrapped("Cause: " + std::string(cause.cause), kLineWidth - 2))
    text += "  " + line + "\n";
  for (const std::string& line : wrapped("Remedy: " + std::string(cause.remedy), kLineWidth - 2))
    text += "  " + line + "\n";
  return text;
}

}  // namespace ddp::launcher
