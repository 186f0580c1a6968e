// GET /v1/models and /v1/models/{id}. Answers have the fields of both OpenAI's and Anthropic's APIs, and
// vLLM's "parent", which is the model that an adapter changes.
#include <fmt/chrono.h>

#include <string>

#include "core/text/json.h"
#include "server/endpoints/endpoints.h"
#include "server/http/url.h"

namespace nibble::server {
namespace {

// `parent`: the model that an adapter changes; empty if `name` is not an adapter.
Json model_row(const Service& service, const std::string& name, const std::string& parent = {}) {
  const ServedModel& model = *service.model;
  return {{"id", name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "nibble"},
          {"parent", parent.empty() ? Json() : Json(parent)},
          {"max_model_len", model.max_context},
          {"type", "model"},
          {"display_name", name},
          {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(model.created))}};
}

}  // namespace

asio::awaitable<void> models(Service& service, Exchange& exchange) {
  Json rows = Json::array({model_row(service, service.options.model_id)});
  for (const std::string& alias : service.options.aliases) rows.push_back(model_row(service, alias));
  for (const ServedAdapter& adapter : service.options.adapters)
    rows.push_back(model_row(service, adapter.name, adapter.parent));
  Json list{{"object", "list"},
            {"first_id", rows.front()["id"]},
            {"last_id", rows.back()["id"]},
            {"has_more", false}};
  list["data"] = std::move(rows);
  return reply_json(exchange, 200, list);
}

asio::awaitable<void> model(Service& service, Exchange& exchange) {
  const std::string path = with_v1(exchange.path());
  const std::string name = url_decoded(match_path("/v1/models/{id}", path).value_or(""));
  return reply_json(exchange, 200, model_row(service, name, parent_of(service, find_model(service, name))));
}

}  // namespace nibble::server
