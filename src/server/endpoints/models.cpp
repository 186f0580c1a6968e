// GET /v1/models and /v1/models/{id}. Answers have the fields of both OpenAI's and Anthropic's APIs.
#include <fmt/chrono.h>

#include "core/text/json.h"
#include "server/endpoints/endpoints.h"
#include "server/http/url.h"

namespace nibble::server {
namespace {

Json model_row(const Service& service, const std::string& name) {
  const ServedModel& model = *service.model;
  return {{"id", name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "nibble"},
          {"max_model_len", model.max_context},
          {"type", "model"},
          {"display_name", name},
          {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(model.created))}};
}

}  // namespace

asio::awaitable<void> models(Service& service, Exchange& exchange) {
  Json rows = Json::array({model_row(service, service.options.model_id)});
  for (const std::string& alias : service.options.aliases) rows.push_back(model_row(service, alias));
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
  check_model(service, name);
  return reply_json(exchange, 200, model_row(service, name));
}

}  // namespace nibble::server
