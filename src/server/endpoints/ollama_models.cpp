// Ollama's API for models: GET /api/tags, /api/ps, /api/version, POST /api/show. Only the served model is
// listed. Models can't be loaded, changed or deleted.
#include <fmt/chrono.h>

#include "core/text/json.h"
#include "server/api/ollama_request.h"
#include "server/endpoints/endpoints.h"

namespace nibble::server {
namespace {

// `parent`: the model that an adapter changes.
Json details(const std::string& parent = {}) {
  return {{"parent_model", parent}, {"format", "safetensors"}, {"family", "gptoss"},
          {"families", {"gptoss"}}, {"parameter_size", ""},    {"quantization_level", "MXFP4"}};
}

std::string time_of(int64_t seconds) { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(seconds)); }

Json ollama_row(const Service& service, const std::string& name, const std::string& parent = {}) {
  const std::string tagged = name.find(':') == std::string::npos ? name + ":latest" : name;
  return {{"name", tagged},
          {"model", tagged},
          {"modified_at", time_of(service.model->created)},
          {"size", 0},
          {"digest", service.fingerprint},
          {"details", details(parent)}};
}

Json ollama_rows(const Service& service) {
  Json list = Json::array({ollama_row(service, service.options.model_id)});
  for (const std::string& alias : service.options.aliases) list.push_back(ollama_row(service, alias));
  for (const ServedAdapter& adapter : service.options.adapters)
    list.push_back(ollama_row(service, adapter.name, adapter.parent));
  return list;
}

}  // namespace

asio::awaitable<void> ollama_tags(Service& service, Exchange& exchange) {
  return reply_json(exchange, 200, {{"models", ollama_rows(service)}});
}

asio::awaitable<void> ollama_ps(Service& service, Exchange& exchange) {
  Json list = ollama_rows(service);
  for (Json& row : list) {
    row["expires_at"] = "2318-01-01T00:00:00Z";  // a time that never comes: the model stays loaded
    row["size_vram"] = 0;
    row["context_length"] = service.model->max_context;
  }
  return reply_json(exchange, 200, {{"models", std::move(list)}});
}

asio::awaitable<void> ollama_show(Service& service, Exchange& exchange) {
  IgnoredFields ignored;
  const ChosenModel model = find_model(service, read_ollama_model(exchange.body(), ignored));
  note_ignored(service, exchange, ignored);
  const int context = service.model->max_context;
  const std::string& id = service.options.model_id;
  const std::string parent = parent_of(service, model);
  return reply_json(exchange, 200,
                    {{"modelfile", ""},
                     {"parameters", fmt::format("num_ctx {}", context)},
                     {"template", "{{ .Prompt }}"},
                     {"details", details(parent)},
                     {"model_info",
                      {{"general.architecture", "gptoss"},
                       {"general.basename", id.substr(id.rfind('/') + 1)},
                       {"gptoss.context_length", context},
                       {"gptoss.vocab_size", service.model->vocab}}},
                     {"capabilities", {"completion", "tools", "thinking"}},
                     {"modified_at", time_of(service.model->created)}});
}

// Returns the version of Ollama's API. Clients compare it with the version that they require (Codex: 0.13.4).
asio::awaitable<void> ollama_version(Service&, Exchange& exchange) {
  return reply_json(exchange, 200, {{"version", "0.13.5"}});
}

}  // namespace nibble::server
