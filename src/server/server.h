// The HTTP server from start to shutdown. It listens before the model is loaded and answers 503 until then.
// SIGINT and SIGTERM end serve(); while the model loads they end the process, with exit code 130. SIGHUP
// reloads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "server/service/metrics.h"
#include "server/service/options.h"

namespace nibble::server {

// How serve() ended.
enum class ServerEnd {
  kComplete,    // every request was answered in full
  kCancelled,   // some requests were not answered in full
  kEngineLost,  // the engine can't run any more steps (EngineState::lost); every request got an error
};

class Server {
 public:
  // Starts to listen, on its own thread. Throws InputError if the address can't be bound.
  explicit Server(const ServerOptions& options);
  ~Server();

  std::string address() const;  // http://127.0.0.1:8080, or unix:PATH
  uint16_t port() const;
  // For EngineOptions::on_step. Lives until the server is destroyed.
  Metrics& metrics();

  // Adds a function that is called on SIGHUP, on the I/O thread. Exceptions that it throws are logged.
  void on_reload(std::function<void()> reload);

  // Called once, when the model is loaded. Requests are answered from the moment this returns, with at most
  // `max_requests` answers running or waiting at a time. The engine and the tokenizer must outlive serve().
  void open(Engine& engine, const ServedModel& model, size_t max_requests);

  // Serves until SIGINT, SIGTERM, or the loss of the engine. Called once, after open().
  // After a signal /health reports not ready. After shutdown_delay new requests are refused and running ones
  // finish; those still running after shutdown_timeout are cancelled.
  // A second signal ends the process with exit code 130. The process also ends, with the exit code for the
  // result of serve() (server/exit_codes.h), if the server is not destroyed within ServerOptions::teardown
  // after serve() has returned, because the engine or the device hangs.
  ServerEnd serve(Engine& engine);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::server
