// The HTTP server from start to shutdown. It listens before the model is loaded, and answers 503 until then; SIGINT and
// SIGTERM end it, and while the model loads the whole program, with exit code 130. SIGHUP reloads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "server/service/metrics.h"
#include "server/service/options.h"

namespace nibble::server {

// How serve() came to its end.
enum class ServerEnd {
  kComplete,    // every request was answered in full
  kCancelled,   // some were not
  kEngineLost,  // the engine can run no step any more (EngineState::lost), and every request has got an error
};

class Server {
 public:
  // Starts to listen, on a thread of its own. Throws InputError if the address can't be bound.
  explicit Server(const ServerOptions& options);
  ~Server();

  std::string address() const;  // http://127.0.0.1:8080, or unix:PATH
  uint16_t port() const;
  // For EngineOptions::on_step; lives as long as the server.
  Metrics& metrics();

  // Adds a function that SIGHUP calls, on the I/O thread. Its exceptions are logged.
  void on_reload(std::function<void()> reload);

  // The model is loaded: when this returns, requests are answered. At most `max_requests` answers run and wait at the same
  // time. The engine and the tokenizer must outlive serve(). Called once.
  void open(Engine& engine, const ServedModel& model, size_t max_requests);

  // Serves until SIGINT or SIGTERM. From then on /health says that it is not ready; after shutdown_delay new requests are refused and
  // running ones end; those that are not done after shutdown_timeout are cancelled. Serves until the engine is lost, too. Called once, after
  // open().
  // The process ends with exit code 130 at a second signal, and with that of the end (server/exit_codes.h) if this object is not destroyed
  // within ServerOptions::teardown after serve() has returned, because the engine or the device hangs.
  ServerEnd serve(Engine& engine);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nibble::server
