#include "cli/bench_serve/server_facts.h"

#include "cli/bench_serve/http_client.h"
#include "core/errors/error.h"

namespace nibble::cli {
namespace {

Json drafts_json(const Json& before, const Json& after) {
  const Json &from = before.at("engine"), &to = after.at("engine");
  if (!from.contains("drafts") || !to.contains("drafts")) return nullptr;  // an older version of nibble
  Json drafts = Json::object();
  for (const auto& [name, count] : to["drafts"].items())
    drafts[name] = count.get<int64_t>() - from["drafts"].value(name, int64_t{0});
  const auto num_drafted = drafts.value("drafted_tokens", int64_t{0});
  drafts["acceptance"] = num_drafted == 0
                             ? Json()
                             : Json(drafts.value("accepted_tokens", 0.0) / static_cast<double>(num_drafted));
  return drafts;
}

Json launches_json(const Json& before, const Json& after) {
  Json launches = Json::object();
  for (const auto& [label, count] : after.at("engine").at("launches").items())
    launches[label] = count.get<int64_t>() - before.at("engine").at("launches").value(label, int64_t{0});
  return launches;
}

}  // namespace

std::string first_model(const Endpoint& endpoint, double timeout_seconds) {
  std::string body;
  try {
    body = fetch(endpoint, endpoint.base + "/models", timeout_seconds);
  } catch (const HttpFailure& failure) {
    throw InputError("{}/models: request failed: {}; is this a server with the OpenAI API?", endpoint.url(),
                     failure.text());
  }
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("data") && json["data"].is_array())
    for (const Json& row : json["data"])
      if (row.is_object() && row.contains("id") && row["id"].is_string() && row["id"] != "") return row["id"];
  throw InputError("{}/models lists no model; give one with --model", endpoint.url());
}

std::optional<Json> read_status(const Endpoint& endpoint, double timeout_seconds) {
  constexpr std::string_view kBase{"/v1"};
  const std::string root = endpoint.base.substr(0, endpoint.base.size() - kBase.size());
  try {
    return parse_status(fetch(endpoint, root + "/status.json", timeout_seconds));
  } catch (const HttpFailure&) {
    return std::nullopt;
  }
}

std::optional<Json> parse_status(const std::string& body) {
  Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  const auto has = [](const Json& object, const char* key, auto is_kind) {
    return object.is_object() && object.contains(key) && (object[key].*is_kind)();
  };
  const bool is_nibble = has(json, "version", &Json::is_string) &&
                         has(json, "vocab", &Json::is_number_integer) &&
                         has(json, "engine", &Json::is_object) && has(json, "setup", &Json::is_object) &&
                         has(json["engine"], "launches", &Json::is_object) &&
                         has(json["setup"], "num_devices", &Json::is_number_integer);
  return is_nibble ? std::optional(std::move(json)) : std::nullopt;
}

Json server_json(const std::optional<Json>& before, const std::optional<Json>& after) {
  if (!before || !after)
    return {{"server", nullptr}, {"kernels", nullptr}, {"launches", nullptr}, {"drafts", nullptr}};
  const Json& setup = after->at("setup");
  const auto member = [](const Json& object, const char* key) {
    return object.contains(key) ? object[key] : Json();
  };
  return {{"server",
           {{"version", after->at("version")},
            {"backend", member(setup, "backend")},
            {"device", member(setup, "device")},
            {"num_devices", setup.at("num_devices")},
            {"max_context", member(*after, "max_context")}}},
          {"kernels", member(setup, "kernels")},
          {"launches", launches_json(*before, *after)},
          {"drafts", drafts_json(*before, *after)}};
}

}  // namespace nibble::cli
