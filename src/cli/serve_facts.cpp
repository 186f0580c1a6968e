#include "cli/serve_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/measure/kernels_json.h"
#include "core/errors/error.h"
#include "core/text/bytes_text.h"
#include "core/threads/thread_pool.h"
#include "server/http/http_server.h"
#include "setup/machine/machine.h"
#include "setup/plan/memory.h"

namespace nibble::cli {

server::SetupFacts setup_facts(const Model& model, const ResolvedSettings& setup, const BackendOptions& room,
                               const Backend* backend, std::span<const size_t> budgets) {
  server::SetupFacts facts;
  facts.backend = setup.backend->name;
  const int num_threads = room.num_threads > 0 ? room.num_threads : num_usable_cores();
  facts.device = setup.backend->device
                     ? setup.backend->device->facts().name
                     : fmt::format("{}, {} thread{}", cpu_name(), num_threads, num_threads == 1 ? "" : "s");
  facts.num_devices = budgets.size() * (setup.nodes ? setup.nodes->parts.size() : 1);
  if (backend) facts.kernels = kernels_json(backend->kernels());
  const MemoryPlan plan = memory_plan(model, setup, room);
  const size_t kept = setup.backend->device ? 0 : kept_weight_bytes(model, plan, setup);
  const std::pair<const char*, size_t> parts[] = {{"weights", kept},
                                                  {"weights in the backend's layout", plan.weight_bytes},
                                                  {"KV cache", plan.kv_bytes},
                                                  {"workspace", plan.workspace_bytes},
                                                  {"draft model", setup.draft_model_bytes}};
  const int64_t left = least_room(model, setup, room, budgets);
  facts.memory_budget = left > 0 ? static_cast<size_t>(left) : 0;
  for (const auto& [what, bytes] : parts) {
    if (bytes > 0) facts.memory.push_back({what, bytes});
    facts.memory_budget += bytes;
  }
  return facts;
}

size_t host_weight_bytes(const Model& model, const ResolvedSettings& setup, const BackendOptions& room) {
  if (setup.backend->device) return 0;
  const MemoryPlan plan = memory_plan(model, setup, room);
  return plan.weight_bytes + kept_weight_bytes(model, plan, setup);
}

namespace {

std::string memory_text(const server::SetupFacts& facts) {
  std::vector<std::string> parts;
  size_t sum = 0;
  for (const auto& [what, bytes] : facts.memory) {
    parts.push_back(fmt::format("{} {}", what, bytes_text(bytes)));
    sum += bytes;
  }
  return fmt::format("{}: {} of {}", fmt::join(parts, ", "), bytes_text(sum),
                     bytes_text(facts.memory_budget));
}

std::string keys_text(const server::ApiKeys& keys) {
  if (keys.empty()) return "none: any client that can reach the address is accepted";
  return fmt::format("{}", fmt::join(keys.names(), ", "));
}

}  // namespace

int check(const server::ServerOptions& options, const Model& model, const ResolvedSettings& setup,
          const Capacity& capacity) {
  server::check_address(options.address);
  const std::vector<size_t> budgets = memory_budgets(setup);
  const BackendOptions room = serving_options(model, setup, capacity, budgets);
  if (!setup.backend->device) check_memory(model, setup, room);
  if (const int64_t left = least_room(model, setup, room, budgets); left < 0)
    throw InputError("{} needs {} more memory with these settings; 'nibble inspect' shows the plan",
                     model.source.name, bytes_text(static_cast<size_t>(-left)));
  const server::SetupFacts facts = setup_facts(model, setup, room, nullptr, budgets);
  std::vector<std::string> names{options.model_id};
  names.insert(names.end(), options.aliases.begin(), options.aliases.end());
  const server::RequestDefaults& defaults = options.defaults;
  fmt::print("{} can be served.\n", model.source.name);
  const auto say = [](const char* what, const std::string& text) { fmt::print("  {:<10}{}\n", what, text); };
  say("address", server::address_text(options.address, options.address.port));
  say("names", fmt::format("{}", fmt::join(names, ", ")));
  for (const std::string& adapter : model.adapters) say("adapter", adapter);
  for (const std::string& adapter : model.request_adapters) say("adapter", adapter);
  say("API keys", keys_text(options.api_keys));
  say("backend", fmt::format("{}: {}", facts.backend, facts.device));
  say("room", fmt::format("{} sequences of up to {} tokens: a KV cache of {} tokens, {} rows per step",
                          capacity.num_sequences, capacity.context,
                          kv_tokens(model.config, room, capacity.context), room.max_batch_tokens));
  say("memory", memory_text(facts));
  say("defaults", fmt::format("temperature {}, top_p {}, top_k {}, min_p {}, reasoning {}, {}",
                              defaults.sample.temperature, defaults.sample.top_p, defaults.sample.top_k,
                              defaults.sample.min_p, harmony::name(defaults.effort),
                              defaults.instructions.empty() ? "no instructions" : "instructions"));
  return kDone;
}

}  // namespace nibble::cli
