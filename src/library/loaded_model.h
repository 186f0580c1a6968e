// A loaded model with its running engine. nibble_model of the C API owns it together with the sessions.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "core/program/settings.h"
#include "engine/engine.h"
#include "library/event_router.h"
#include "library/options.h"
#include "setup/model/model.h"
#include "setup/plan/capacity.h"
#include "setup/settings/resolved_settings.h"
#include "text/tokenizer.h"
#include "turn/answer_format.h"

namespace nibble::library {

class LoadedModel {  // thread-safe
 public:
  // `options` may be null. Throws InputError and the exceptions of load().
  LoadedModel(const std::string& name, const nibble_options* options);

  const Settings& settings() const { return settings_; }  // includes the defaults of the sessions
  const Config& config() const { return model_.config; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  int context() const { return capacity_.context; }

  // Returns the constraint of answers of this form, as AnswerFormat::constraint() does.
  std::shared_ptr<const grammar::Constraint> constraint(const AnswerForm& form, bool is_chat,
                                                        std::vector<harmony::TurnTool> tools);
  // Throws InputError if the request can't be run.
  RequestId submit(GenerationRequest request, std::shared_ptr<Inbox> inbox);
  void cancel(RequestId request) { engine_.cancel(request); }

 private:
  Settings settings_;
  ResolvedSettings setup_;
  Model model_;
  Tokenizer tokenizer_;
  Capacity capacity_;
  BackendOptions room_;
  std::unique_ptr<Backend> backend_;
  Engine engine_;
  EventRouter router_;
  std::mutex format_mutex_;
  AnswerFormat format_;
};

}  // namespace nibble::library

struct nibble_model {
  std::shared_ptr<nibble::library::LoadedModel> loaded;
};
