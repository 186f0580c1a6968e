// nibble serve: runs the HTTP server with the OpenAI API.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "cli/command.h"
#include "cli/config_file.h"
#include "cli/nodes.h"
#include "cli/options.h"
#include "cli/serve_facts.h"
#include "cli/standard_streams.h"
#include "cli/terminal/loading_lines.h"
#include "cli/version.h"
#include "core/console/output.h"
#include "core/errors/error.h"
#include "core/files/mapped_file.h"
#include "core/system/clock.h"
#include "core/text/bytes_text.h"
#include "core/threads/thread_pool.h"
#include "harmony/control_tokens.h"
#include "server/exit_codes.h"
#include "server/http/http_server.h"
#include "server/page/content_policy.h"
#include "server/server.h"
#include "setup/machine/machine.h"
#include "setup/model/model.h"
#include "setup/model/template_notice.h"
#include "setup/model/tokenizer.h"
#include "setup/plan/adapters.h"
#include "setup/plan/capacity.h"
#include "setup/plan/experts.h"
#include "setup/plan/memory.h"
#include "setup/plan/nodes.h"
#include "setup/start/drafters.h"
#include "setup/start/load.h"
#include "setup/start/resolve.h"
#include "turn/new_request.h"

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kServerGroup{"Server"};

constexpr const char* kServeFooter{R"(
Endpoints: /v1/chat/completions, /v1/completions, /v1/responses (also stored ones), /v1/models, /apply-template, /tokenize,
/detokenize, /tokenizer_info, /health, /live, /version, /metrics, /status.json; in a browser a chat at / and the status at
/status. After ctrl-C (or SIGTERM) the server refuses new requests and ends when the running ones are done; after a second one it ends at once (exit code 130).
Flags of Instructions and Sampling are defaults; fields and instructions of a request override them.
A request body may have up to 8 MiB. Bodies over 16 KiB share 256 MiB while they are received and read; beyond that requests get status 429.
Flags of vLLM, SGLang, TensorRT-LLM and llama.cpp are read as nibble's, or refused with the reason: docs/start-lines.md.
--log-level info logs each request on stderr: id, client, key name, tokens, times; its text only with --log-bodies. SIGHUP rereads the keys.

Examples:
  nibble serve tiny
  nibble serve openai/gpt-oss-20b --port 8000 --max-sequences 32 --context 16384
  nibble serve --config /etc/nibble/nibble.toml --check
  nibble serve /data/gpt-oss-120b --served-model-name gpt-oss-120b --host 0.0.0.0 \
       --api-key-file /etc/nibble/keys
  curl http://127.0.0.1:8080/v1/chat/completions -H "Content-Type: application/json" \
       -d '{"messages": [{"role": "user", "content": "What is 17 + 25?"}]}')"};

static_assert(kInterrupted == server::kInterruptedCode && kEngineLost == server::kEngineLostCode);

constexpr server::HttpLimits kLimits{};
static_assert(kLimits.max_body_bytes == 8 << 20 && kLimits.uncounted_body_bytes == 16 << 10 &&
                  kLimits.max_bodies_bytes == 256 << 20,
              "the footer names them");

struct ServeOptions {
  std::string model;
  std::vector<std::string> served_names, lora_modules;
  server::ServerOptions server{};
  std::vector<std::string> keys;
  std::optional<std::string> key_file;
  bool has_no_page{false};
  int max_queue{256};
  std::optional<int> step_timeout_seconds;
  bool only_checks{false};
  int request_seconds{0};
  int resume_seconds{300}, resume_mebibytes{64};
  int shutdown_delay_seconds{0}, shutdown_seconds{30};
};

server::ApiKeys api_keys(const ServeOptions& options) {
  server::ApiKeys keys;
  for (const std::string& key : options.keys) keys.add(key, "--api-key");
  const char* variable = std::getenv("NIBBLE_API_KEY");
  if (variable && *variable && options.keys.empty() && !options.key_file)
    keys.add(variable, "NIBBLE_API_KEY");
  if (!options.key_file) return keys;
  refuse_special_file(*options.key_file);
  std::ifstream in(*options.key_file);
  in.peek();  // reads a byte to find errors: opening a folder succeeds, reading it fails
  if (in.bad() || !in.is_open())
    throw InputError("--api-key-file '{}' can't be read: {}", *options.key_file, std::strerror(errno));
  std::ostringstream text;
  text << in.rdbuf();
  keys.add_lines(text.str(), *options.key_file);
  return keys;
}

void warn_if_open(const server::ServerOptions& options) {
  if (!options.api_keys.empty() || server::is_local(options.address)) return;
  print_to(stderr,
           "nibble: warning: no API key: anyone who can reach {}:{} can use this server. Set one with "
           "--api-key-file, or listen on 127.0.0.1\n",
           options.address.host, options.address.port);
}

// Returns the model's name for clients: only the last part of a path, because clients must not see the rest.
std::string served_name(const ServeOptions& options) {
  if (!options.served_names.empty()) return options.served_names.front();
  const fs::path path = fs::path(options.model) / "";
  return fs::exists(options.model) ? path.parent_path().filename().string() : options.model;
}

server::ServerOptions server_options_of(const ServeOptions& options, const Settings& settings) {
  server::ServerOptions server_options = options.server;
  server_options.api_keys = api_keys(options);
  if (server_options.isolate_keys && server_options.api_keys.empty())
    throw InputError("--isolate-keys needs API keys: give --api-key-file");
  for (const std::string& origin : server_options.mcp_origins) server::check_mcp_origin(origin);
  if (options.key_file) server_options.reload_keys = [&options] { return api_keys(options); };
  server_options.model_id = served_name(options);
  if (options.served_names.size() > 1)
    server_options.aliases.assign(options.served_names.begin() + 1, options.served_names.end());
  server_options.date = settings.date;
  server_options.defaults = {.sample = sample_params(settings),
                             .effort = *harmony::reasoning_effort_of(settings.reasoning),
                             .instructions = settings.system.value_or("")};
  server_options.version = this_build().version;
  server_options.has_page = !options.has_no_page;
  if (options.step_timeout_seconds)
    server_options.step_timeout = std::chrono::seconds(*options.step_timeout_seconds);
  server_options.request_timeout = std::chrono::seconds(options.request_seconds);
  server_options.keep_time = std::chrono::seconds(options.resume_seconds);
  server_options.max_kept_bytes = static_cast<size_t>(options.resume_mebibytes) << 20;
  server_options.shutdown_delay = std::chrono::seconds(options.shutdown_delay_seconds);
  server_options.shutdown_timeout = std::chrono::seconds(options.shutdown_seconds);
  return server_options;
}

// Returns a function that reports the progress of loading: to clients of /health, and as lines on stderr.
ReportProgress watch_loading(server::Server& server) {
  return [&server, lines = LoadingLines(stderr), watch = Stopwatch()](size_t done, size_t total) mutable {
    server.report_loading(done, total);
    lines.report(done, total, watch.seconds());
  };
}

// Reads --lora-modules, and adds the adapters' names to those that the server offers.
std::vector<AdapterModule> adapter_modules(const ServeOptions& options, server::ServerOptions& server) {
  std::vector<std::string> names{server.model_id};
  names.insert(names.end(), server.aliases.begin(), server.aliases.end());
  std::vector<AdapterModule> modules = read_adapter_modules(options.lora_modules, names);
  for (const AdapterModule& module : modules)
    server.adapters.push_back({module.name, module.base.empty() ? server.model_id : module.base});
  return modules;
}

int serve(const ServeOptions& options, const Settings& settings) {
  outlive_the_terminal();
  server::ServerOptions server_options = server_options_of(options, settings);
  const std::vector<AdapterModule> modules = adapter_modules(options, server_options);
  ResolvedSettings setup = resolve(settings);
  check_takes_adapters(modules, setup);
  if (!options.only_checks)
    if (const auto code = follow_head(setup, options.model)) return *code;
  Model model =
      options.only_checks ? describe_model_for(options.model, setup) : open_model_for(options.model, setup);
  open_adapter_modules(modules, model, setup);
  report_template(model.source);
  const Tokenizer tokenizer = open_tokenizer(model.source, setup.places);
  const Capacity capacity{context_of(model.config, setup), setup.max_sequences};
  open_drafters(setup, model, capacity);
  if (options.only_checks) return check(server_options, model, setup, capacity);

  server::ServedModel served;
  served.tokenizer = &tokenizer;
  served.vocab = model.config.vocab;
  served.max_context = capacity.context;
  served.stop_tokens = harmony::stop_tokens(tokenizer);
  served.stop_tokens.insert(served.stop_tokens.end(), model.config.eos.begin(), model.config.eos.end());
  served.created = std::time(nullptr);

  allow_open_files();
  server::Server server(server_options);
  warn_if_open(server_options);
  announce(
      fmt::format("Loading {}; {} already answers /health.\n", server_options.model_id, server.address()));
  const std::vector<size_t> budgets = memory_budgets(setup);
  BackendOptions room = serving_options(model, setup, capacity, budgets);
  if (options.step_timeout_seconds) room.step_patience_seconds = 2.0 * *options.step_timeout_seconds;
  const std::unique_ptr<Backend> backend = load(model, setup, room, watch_loading(server));
  load_draft_model(setup);
  EngineOptions engine_settings = engine_options(setup, room, capacity);
  engine_settings.on_step = [&server](const StepReport& report) { server.metrics().observe_step(report); };
  Engine engine(*backend, tokenizer, engine_settings);
  served.num_host_bytes = host_weight_bytes(model, setup, room);
  served.setup = setup_facts(model, setup, room, backend.get(), budgets);
  server.open(engine, served, static_cast<size_t>(setup.max_sequences + options.max_queue));
  announce(fmt::format(
      "Serving {} on {}\n"
      "Room for {} sequences of up to {} tokens: a KV cache of {} tokens ({}), {} rows per step.\n",
      server_options.model_id, server.address(), capacity.num_sequences, capacity.context,
      kv_tokens(model.config, room, capacity.context),
      bytes_text(setup.backend->memory.plan(config_here(model.config, setup), room, setup.own).kv_bytes),
      room.max_batch_tokens));
  switch (server.serve(engine)) {
    case server::ServerEnd::kComplete:
      return kDone;
    case server::ServerEnd::kCancelled:
      return kInterrupted;
    case server::ServerEnd::kEngineLost:
      break;
  }
  print_to(stderr, "nibble: {}\n", engine.state().lost);
  std::_Exit(setup.nodes ? kNodeLost : kEngineLost);  // a destructor would block on a device that hangs
}

template <typename Value>
CLI::Option* add_server_flag(CLI::App& command, const char* flag, const char* type, Value& value,
                             const char* what) {
  return add_value(command, flag, type, value, what)->group(kServerGroup);
}
template <typename Number>
void add_server_number(CLI::App& command, const char* flag, Number& number, std::pair<int, int> limits,
                       const char* what) {
  add_server_flag(command, flag, "N", number, what)
      ->check(CLI::Range(limits.first, limits.second))
      ->capture_default_str();
}
void add_switch(CLI::App& command, const char* flag, bool& value, const char* what) {
  command.add_flag(flag, value, what)->group(kServerGroup);
}

void add_listening_flags(CLI::App& command, ServeOptions& options) {
  add_server_flag(command, "--host", "ADDRESS", options.server.address.host,
                  "address to listen on; 0.0.0.0: all of this machine's")
      ->capture_default_str();
  add_server_number(command, "--port", options.server.address.port, {0, 65535},
                    "port to listen on; 0: any free one");
  add_server_flag(command, "--unix-socket", "PATH", options.server.address.unix_socket,
                  "listen on a Unix socket at PATH, and on no port");
  take_all(add_server_flag(command, "--served-model-name", "NAME", options.served_names,
                           "what clients call the model [MODEL, of a path its last part];\n"
                           "may be given several times: answers have the first"));
  take_all(
      add_server_flag(command, "--lora-modules", "NAME=FILE[:SCALE]", options.lora_modules,
                      "serve a LoRA adapter as a model of its own: requests choose it by \"model\": NAME;\n"
                      "may be given several times; --lora merges one into the model instead"));
}

void add_access_flags(CLI::App& command, ServeOptions& options) {
  take_all(add_server_flag(
      command, "--api-key", "KEY", options.keys,
      "accept only requests with 'Authorization: Bearer KEY'; NAME:KEY names the key in logs\n"
      "and metrics; may be given several times. Other users of this machine can see it: see the "
      "next.\nWithout both, the variable NIBBLE_API_KEY is a key"));
  add_server_flag(
      command, "--api-key-file", "FILE", options.key_file,
      "the same with keys from a file, one on a line, and comments after #; read again on SIGHUP");
  take_all(add_server_flag(command, "--cors-origin", "ORIGIN", options.server.cors_origins,
                           "let pages of ORIGIN (https://chat.example) ask from a browser; *: all;\n"
                           "may be given several times"));
  take_all(add_server_flag(command, "--mcp-origin", "ORIGIN", options.server.mcp_origins,
                           "let the chat page call MCP servers of ORIGIN (http://127.0.0.1:3000), from the\n"
                           "user's browser; may be given several times"));
  take_all(add_server_flag(command, "--allowed-host", "NAME", options.server.allowed_hosts,
                           "answer requests to NAME (the Host that they name) too, where without a key only\n"
                           "localhost is answered; *: all; may be given several times"));
}

void add_limit_flags(CLI::App& command, ServeOptions& options) {
  add_server_number(command, "--max-queue", options.max_queue, {0, 1 << 20},
                    "requests that wait beyond the --max-sequences that run; more are\n"
                    "answered with status 429");
  add_server_number(command, "--max-output-tokens", options.server.max_output_tokens, {0, 1 << 30},
                    "tokens that an answer may have: requests for more get N, and a header\n"
                    "says so; 0: as many as the context has room for");
  add_server_number(command, "--stream-interval", options.server.stream_interval, {1, 1000},
                    "minimum number of tokens between two events of a stream; the first text\n"
                    "is sent at once; larger values use less CPU on server and client");
  add_server_number(command, "--request-timeout", options.request_seconds, {0, 1 << 20},
                    "seconds that a request may wait and run: then its answer ends as if\n"
                    "max_tokens were reached; status 504 if it has not begun; 0: no limit");
  add_server_number(command, "--max-connections", options.server.limits.max_connections, {1, 1 << 20},
                    "open connections; a further one takes the place of the one that is idle\n"
                    "for longest");
}

void add_resume_flags(CLI::App& command, ServeOptions& options) {
  add_server_number(command, "--resume-time", options.resume_seconds, {0, 86400},
                    "seconds for which a client that lost its connection (the page, or a streamed\n"
                    "background response) can read the rest of its answer; 0: not at all");
  add_server_number(command, "--resume-memory", options.resume_mebibytes, {0, 1 << 20},
                    "MiB for the events of these answers; when it is full, the oldest are dropped");
}

void add_timeout_flags(CLI::App& command, ServeOptions& options) {
  add_value(command, "--step-timeout", "N", options.step_timeout_seconds,
            "seconds after which /health says 503 if requests wait and no step of the model\n"
            "ends, and /live after twice that; [60, or more on a slow CPU]")
      ->check(CLI::Range(1, 86400))
      ->group(kServerGroup);
  add_server_number(command, "--shutdown-delay", options.shutdown_delay_seconds, {0, 86400},
                    "seconds after ctrl-C or SIGTERM in which requests are still taken,\n"
                    "while /health says 503: load balancers look elsewhere before one fails");
  add_server_number(command, "--shutdown-timeout", options.shutdown_seconds, {0, 86400},
                    "seconds that running requests get then");
}

void add_switches(CLI::App& command, ServeOptions& options) {
  add_switch(command, "--no-page", options.has_no_page,
             "serve the API alone, without the pages / and /status");
  add_switch(command, "--metrics-no-auth", options.server.has_open_metrics,
             "let everybody read /metrics, where other paths need a key");
  add_switch(command, "--isolate-keys", options.server.isolate_keys,
             "keep the texts of different API keys apart in the prefix cache and in drafts, so that\n"
             "no user can find out what others have asked");
  add_switch(command, "--strict", options.server.is_strict,
             "refuse requests with a field that is not obeyed, where else a header names it");
  add_switch(command, "--log-bodies", options.server.log_bodies,
             "log the bodies of requests, prompts and all (with --log-level info)");
  add_switch(command, "--check", options.only_checks,
             "check flags, configuration, keys and model files, print what would be served and the\n"
             "memory that it takes, and end: exit code 0, or 2 and a line that says what is wrong");
}

}  // namespace

Action define_serve(CLI::App& command, Settings& settings) {
  const auto options = std::make_shared<ServeOptions>();
  add_config_file(command);
  add_model(command, options->model);
  add_listening_flags(command, *options);
  add_access_flags(command, *options);
  add_limit_flags(command, *options);
  add_resume_flags(command, *options);
  add_timeout_flags(command, *options);
  add_switches(command, *options);
  add_settings(command, settings,
               {SettingGroup::kInstruction, SettingGroup::kDate, SettingGroup::kSampling,
                SettingGroup::kMachine, SettingGroup::kBatch, SettingGroup::kCache, SettingGroup::kDrafts,
                SettingGroup::kDevice, SettingGroup::kGpus, SettingGroup::kNodes, SettingGroup::kPlaces});
  command.footer(kServeFooter);
  return [options, &settings] { return serve(*options, settings); };
}

}  // namespace nibble::cli
