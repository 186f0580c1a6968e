// The HTTP server from start to shutdown. It answers 503 until the model is loaded. SIGINT and SIGTERM end
// serve(); while the model loads they end the process (exit code 130). SIGHUP calls on_reload()'s function.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "server/service/metrics.h"
#include "server/service/options.h"

namespace nibble::server {

enum class ServerEnd {  // how serve() ended
  kComplete,            // every request was answered in full
  kCancelled,           // some requests were not answered completely
  kEngineLost,          // the engine can't run any more steps (EngineState::lost); every request got an error
};

class Server {
 public:
  // Listens on a separate thread. Throws InputError if the address can't be bound.
  explicit Server(const ServerOptions& options);
  ~Server();

  std::string address() const;  // http://127.0.0.1:8080, or unix:PATH
  uint16_t port() const;
  Metrics& metrics();  // EngineOptions::on_step must call observe_step() of it; lives as long as the server

  // Reports the progress of loading, in any unit, to clients of /health. Thread-safe.
  void report_loading(size_t done, size_t total);

  // `reload` is called on SIGHUP, on the I/O thread. Its exceptions are logged.
  void on_reload(std::function<void()> reload);

  // Starts to answer requests: at most `max_requests` answers run or wait. Called once, when the model is
  // loaded. Engine and tokenizer must outlive serve().
  void open(Engine& engine, const ServedModel& model, size_t max_requests);

  // Serves until SIGINT, SIGTERM, or the loss of the engine. Called once, after open(). From a signal on,
  // /health reports not ready. After shutdown_delay, new requests are refused and running ones finish;
  // shutdown_timeout later the rest is cancelled. A second signal ends the process with exit code 130. If the
  // engine or the device hangs, so that the server is not destroyed within ServerOptions::teardown after
  // serve() returned, the process ends with the exit code for serve()'s result (server/exit_codes.h).
  ServerEnd serve(Engine& engine);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::server
