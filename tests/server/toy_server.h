// A server whose engine runs a toy model that can be made to wait or fail.
#pragma once

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/program/log.h"
#include "core/text/json.h"
#include "harmony/control_tokens.h"
#include "server/server.h"
#include "tests/engine/toy_backend.h"
#include "tests/server/connection.h"
#include "tests/server/tiny.h"
#include "tests/wait_until.h"

namespace nibble::server {

// Runs steps one by one as the test releases them, or all of them without waiting.
class GatedBackend : public ToyBackend {
 public:
  using ToyBackend::ToyBackend;

  StepResult step(const Batch& batch) override {
    ++num_begun;
    if (is_gated) gate.acquire();
    return ToyBackend::step(batch);
  }
  std::vector<Counter> counters() const override {
    if (!counts_steps) return {};
    return {{"steps one way", "one_way", static_cast<size_t>(num_begun)}, {"steps another way", "other", 0}};
  }

  std::vector<KernelLaunches> launches() const override {
    if (!counts_steps) return {};
    return {{"attend", 2 * static_cast<size_t>(num_begun)}};
  }

  std::atomic<bool> counts_steps{false};
  std::atomic<int> num_begun{0};
  std::atomic<bool> is_gated{false};
  std::counting_semaphore<> gate{0};
};

inline EngineOptions room_for(int max_batch_tokens, int max_sequences) {
  EngineOptions options;
  options.num_pages = 300;
  options.max_batch_tokens = max_batch_tokens;
  options.max_sequences = max_sequences;
  return options;
}

struct Running {
  explicit Running(ToyModel model, const EngineOptions& engine_options = room_for(512, 16),
                   const ServerOptions& options = test::any_port(), size_t max_choices = 100)
      : backend(engine_options, std::move(model)),
        server(options),
        engine(backend, tiny(), measured(engine_options)) {
    spdlog::set_level(spdlog::level::err);
    ServedModel served;
    served.tokenizer = &tiny();
    served.vocab = kToyVocab;
    served.stop_tokens = harmony::stop_tokens(tiny());
    served.max_context = backend.config().max_context;
    served.setup = {.backend = "toy",
                    .device = "a test",
                    .kernels = Json::array({Json::object({{"operation", "attend"},
                                                          {"weights", "BF16"},
                                                          {"activations", "F32"},
                                                          {"rows", "any"},
                                                          {"kernel", "toy::attend"},
                                                          {"reason", "the only one"}})}),
                    .memory = {{"KV cache", 1000}},
                    .memory_budget = 3000};
    server.open(engine, served, max_choices);
    thread = std::thread([this] { end = server.serve(engine); });
  }
  ~Running() {
    open_gate();
    if (!thread.joinable()) return;
    ::kill(::getpid(), SIGTERM);
    thread.join();
  }

  EngineOptions measured(EngineOptions given) {
    given.on_step = [this](const StepReport& report) { server.metrics().observe_step(report); };
    return given;
  }

  void open_gate() {
    backend.is_gated = false;
    backend.gate.release(1000);
  }

  void wait_until_someone_has_gone() {
    test::wait_until(
        [&] { return server.metrics().text(std::nullopt).find("status=\"499\"") != std::string::npos; });
  }

  // To be called while the gate is closed. wait_for_step() returns when the step with this number has begun,
  // wait_for_answers() when the engine works on `number` answers.
  void wait_for_step(int number) const {
    test::wait_until([&] { return backend.num_begun >= number; });
  }
  void wait_for_answers(size_t number) const {
    test::wait_until([&] {
      const test::Connection connection(server.port());
      connection.send("GET /status.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
      const std::string status = connection.read();
      size_t num_here = 0;
      for (size_t at = status.find("\"seconds\""); at != std::string::npos;
           at = status.find("\"seconds\"", at + 1))
        ++num_here;
      return num_here >= number;
    });
  }

  std::string ask(const std::string& body) const {
    const test::Connection connection(server.port());
    connection.post("/v1/completions", body);
    return connection.read();
  }

  GatedBackend backend;
  Server server;
  Engine engine;
  std::thread thread;
  ServerEnd end{ServerEnd::kCancelled};
};

// A model that answers "!" without end. Throws if the context begins with an X.
inline std::vector<float> model_with_a_fault(std::span<const TokenId> context) {
  static const TokenId x = tiny().encode("X", SpecialTokens::kOrdinary)[0];
  if (context.front() == x) throw std::runtime_error("the device is on fire");
  std::vector<float> logits(kToyVocab, 0.0f);
  logits[0] = 10;
  return logits;
}

}  // namespace nibble::server
