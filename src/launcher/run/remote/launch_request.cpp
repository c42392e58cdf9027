#include "launcher/run/remote/launch_request.h"

#include <ddp/version.h>

#include <nlohmann/json.hpp>

#include <utility>

#include "base/text.h"
#include "launcher/run/remote/remote_texts.h"
#include "wire/control_message.h"

namespace ddp::launcher {
namespace {

using Json = nlohmann::json;

// JSON strings are Unicode, but arguments and variables are bytes.
using wire::bytes_to_text;
using wire::text_to_bytes;

constexpr std::pair<const char*, std::string LaunchRequest::*> kTexts[] = {
    {"starter", &LaunchRequest::controller},
    {"host", &LaunchRequest::host},
    {"directory", &LaunchRequest::directory},
    {"token", &LaunchRequest::token},
};
constexpr std::pair<const char*, std::vector<std::string> LaunchRequest::*> kLists[] = {
    {"words", &LaunchRequest::words},
    {"environment", &LaunchRequest::environment},
};

}  // namespace

std::string encode(const LaunchRequest& request) {
  Json json{{"protocol", kHostProtocol}, {"version", DDP_VERSION_STRING}, {"nonce", request.nonce}};
  for (const auto& [name, text] : kTexts) json[name] = bytes_to_text(request.*text);
  for (const auto& [name, texts] : kLists) {
    Json& list = json[name] = Json::array();
    for (const std::string& each : request.*texts) list.push_back(bytes_to_text(each));
  }
  return json.dump();
}

base::Result<LaunchRequest> decode_request(std::string_view line) {
  try {
    const Json json = Json::parse(line);
    if (json.at("protocol").get<int>() != kHostProtocol) {
      return base::Failure{other_version_text(json.at("version").get<std::string>())};
    }
    LaunchRequest request;
    request.nonce = json.at("nonce").get<std::string>();
    for (const auto& [name, text] : kTexts) request.*text = text_to_bytes(json.at(name).get<std::string>());
    for (const auto& [name, texts] : kLists) {
      for (const Json& each : json.at(name)) (request.*texts).push_back(text_to_bytes(each.get<std::string>()));
    }
    if (!request.words.empty()) return request;
  } catch (const Json::exception&) {
  }
  return base::Failure{kNoRequestText};
}

std::string encode(const ControllerWord& word) {
  return (word.start ? Json{{"go", true}} : Json{{"signal", word.signal}}).dump();
}

std::optional<ControllerWord> decode_word(std::string_view line) try {
  const Json json = Json::parse(line);
  if (json.contains("go")) return ControllerWord{json.at("go").get<bool>(), 0};
  return ControllerWord{false, json.at("signal").get<int>()};
} catch (const Json::exception&) {
  return std::nullopt;
}

std::string reply_mark(const std::string& nonce) {
  return "\x1e"
         "ddplaunch " +
         nonce + " ";
}

std::string encode(const LaunchReply& reply) {
  return reply.ended ? "ended " + std::to_string(*reply.ended) : "ready";
}

std::optional<LaunchReply> decode_reply(std::string_view text) {
  constexpr std::string_view kEnded = "ended ";
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text == "ready") return LaunchReply{true, std::nullopt};
  if (!text.starts_with(kEnded)) return std::nullopt;
  const auto code = base::parse_integer(text.substr(kEnded.size()), 0, 255);
  if (!code) return std::nullopt;
  return LaunchReply{false, static_cast<int>(*code)};
}

}  // namespace ddp::launcher
