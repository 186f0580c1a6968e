#include "library/loaded_model.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "core/errors/error.h"
#include "core/program/log.h"
#include "library/status.h"
#include "setup/commit.h"
#include "setup/model/tokenizer.h"
#include "setup/plan/experts.h"
#include "setup/plan/memory.h"
#include "setup/start/drafters.h"
#include "setup/start/load.h"
#include "setup/start/resolve.h"

namespace nibble::library {
namespace {

namespace fs = std::filesystem;

Settings settings_of(const nibble_options* options) {
  Settings settings;
  settings.build = kBuildName;
  apply_to_model(options, settings);
  return settings;
}

void start_log(const Settings& settings) {  // once: the logger belongs to the process
  static std::once_flag is_started;
  std::call_once(is_started, [&] {
    log::start(spdlog::level::from_str(settings.log_level),
               settings.log_format == "json" ? log::Format::kJson : log::Format::kText);
  });
}

// Returns the file that contains this function: libnibble.so, or the program if it was linked statically.
fs::path own_file() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void*>(&nibble_version), &info) || !info.dli_fname) return {};
  std::error_code unknown;
  const fs::path file = fs::canonical(info.dli_fname, unknown);
  return unknown ? fs::path() : file;
}

ResolvedSettings setup_of(const Settings& settings, const nibble_options* options) {
  start_log(settings);
  ResolvedSettings setup = resolve(settings);
  if (!settings.models) {  // The program may lie anywhere, so also look for bundled models near the library.
    const std::vector<fs::path> folders = model_folders_near(own_file());
    setup.places.model_folders.insert(setup.places.model_folders.end(), folders.begin(), folders.end());
  }
  const nibble_progress progress = options ? options->progress : nullptr;
  void* const data = options ? options->progress_data : nullptr;
  setup.show_progress = [progress, data](std::string task, ProgressUnit) -> ReportProgress {
    return [progress, data, task = std::move(task)](size_t done, size_t total) {
      if (progress) progress(data, task.c_str(), done, total);
    };
  };
  return setup;
}

// Sizes the KV cache as `nibble serve` does.
BackendOptions room_of(ResolvedSettings& setup, const Model& model, const Capacity& capacity) {
  open_drafters(setup, model, capacity);
  return serving_options(model, setup, capacity, memory_budgets(setup));
}

EngineOptions loaded_engine_options(ResolvedSettings& setup, const BackendOptions& room,
                                    const Capacity& capacity) {
  load_draft_model(setup);
  return engine_options(setup, room, capacity);
}

}  // namespace

LoadedModel::LoadedModel(const std::string& name, const nibble_options* options)
    : settings_(settings_of(options)),
      setup_(setup_of(settings_, options)),
      model_(open_model_for(name, setup_)),
      tokenizer_(open_tokenizer(model_.source, setup_.places)),
      capacity_{context_of(model_.config, setup_), setup_.max_sequences},
      room_(room_of(setup_, model_, capacity_)),
      backend_(load(model_, setup_, room_)),
      engine_(*backend_, tokenizer_, loaded_engine_options(setup_, room_, capacity_)),
      router_(engine_),
      format_(tokenizer_) {}

std::shared_ptr<const grammar::Constraint> LoadedModel::constraint(const AnswerForm& form, bool is_chat,
                                                                   std::vector<harmony::TurnTool> tools) {
  const std::scoped_lock lock(format_mutex_);
  return format_.constraint(form, is_chat, std::move(tools));
}

RequestId LoadedModel::submit(GenerationRequest request, std::shared_ptr<Inbox> inbox) {
  if (const std::optional<std::string> fault = engine_.fault_of(request)) throw InputError("{}", *fault);
  return router_.submit(std::move(request), std::move(inbox));
}

}  // namespace nibble::library

using namespace nibble::library;

nibble_status nibble_model_open(const char* name, const nibble_options* options, nibble_model** model) {
  return guarded([&] {
    need(model, "model");
    need(name, "name");
    *model = new nibble_model{std::make_shared<LoadedModel>(name, options)};
  });
}

void nibble_model_close(nibble_model* model) { delete model; }

int32_t nibble_model_context(const nibble_model* model) { return model ? model->loaded->context() : 0; }

namespace {

// Copies the result to `to`, which has room for *size elements, and sets *size. If *size is 0, only sets
// *size.
template <typename Value, typename Result>
void give(const Result& result, Value* to, size_t* size) {
  const size_t capacity = std::exchange(*size, result.size());
  if (capacity == 0) return;
  if (result.size() > capacity) throw Refused(NIBBLE_TOO_SMALL, "the buffer is too small for the result");
  std::ranges::copy(result, to);
}

void encode(const nibble_model* model, std::string_view text, nibble::SpecialTokens special, int32_t* tokens,
            size_t* num_tokens) {
  need(model, "model");
  need(num_tokens, "num_tokens");
  if (!text.empty()) need(text.data(), "text");
  if (*num_tokens > 0) need(tokens, "tokens");
  give(model->loaded->tokenizer().encode(text, special), tokens, num_tokens);
}

}  // namespace

nibble_status nibble_model_encode(const nibble_model* model, const char* text, size_t text_bytes,
                                  int32_t* tokens, size_t* num_tokens) {
  return guarded([&] {
    encode(model, {text, text_bytes}, nibble::SpecialTokens::kOrdinary, tokens, num_tokens);
  });
}

nibble_status nibble_model_encode_controls(const nibble_model* model, const char* text, size_t text_bytes,
                                           int32_t* tokens, size_t* num_tokens) {
  return guarded([&] {
    encode(model, {text, text_bytes}, nibble::SpecialTokens::kRecognise, tokens, num_tokens);
  });
}

nibble_status nibble_model_decode(const nibble_model* model, const int32_t* tokens, size_t num_tokens,
                                  char* text, size_t* text_bytes) {
  return guarded([&] {
    need(model, "model");
    need(text_bytes, "text_bytes");
    if (num_tokens > 0) need(tokens, "tokens");
    if (*text_bytes > 0) need(text, "text");
    const nibble::Tokenizer& tokenizer = model->loaded->tokenizer();
    for (size_t i = 0; i < num_tokens; ++i)
      if (tokens[i] < 0 || tokens[i] >= tokenizer.num_tokens())
        throw nibble::InputError("tokens[{}] is {}, which is not in the vocabulary (ids 0 to {})", i,
                                 tokens[i], tokenizer.num_tokens() - 1);
    give(tokenizer.decode({tokens, num_tokens}), text, text_bytes);
  });
}
