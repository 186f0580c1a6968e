// GET /props and /load, for clients of llama-server and vLLM.

#include "core/text/json.h"
#include "server/endpoints/endpoints.h"
#include "server/service/engine_gate.h"

namespace nibble::server {

// The answer has no chat_template, because clients could not render harmony from a template. They can use
// POST /apply-template.
asio::awaitable<void> props(Service& service, Exchange& exchange) {
  const std::string& id = service.options.model_id;
  return reply_json(exchange, 200,
                    {{"default_generation_settings", {{"n_ctx", service.model->max_context}}},
                     {"model_alias", id},
                     {"model_path", id},
                     {"modalities", {{"vision", false}, {"audio", false}}},
                     {"build_info", "nibble " + service.options.version}});
}

asio::awaitable<void> load(Service& service, Exchange& exchange) {
  return reply_json(exchange, 200, {{"server_load", service.gate->num_choices()}});
}

}  // namespace nibble::server
