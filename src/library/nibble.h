/* The C API of libnibble: runs OpenAI's gpt-oss models inside a program. docs/library.md is an introduction.
 *
 *   nibble_model* model = NULL;
 *   nibble_session* session = NULL;
 *   nibble_event event = {.struct_bytes = sizeof event};
 *   if (nibble_model_open("openai/gpt-oss-20b", NULL, &model) ||
 *       nibble_session_open(model, NULL, &session) || nibble_session_send(session, "What is 17 + 25?"))
 *     return fail(nibble_last_error());
 *   do {
 *     if (nibble_session_next_event(session, -1, &event)) return fail(nibble_last_error());
 *     if (event.type == NIBBLE_EVENT_TEXT) fputs(event.text, stdout);
 *   } while (event.type != NIBBLE_EVENT_FINISHED);
 *   nibble_session_close(session);
 *   nibble_model_close(model);
 *
 * Results. A function that can fail returns a nibble_status. If it is not NIBBLE_OK or NIBBLE_TIMEOUT,
 * nibble_last_error() is one line: what is wrong, where, what to do. Output parameters are then unchanged,
 * unless the function says otherwise. No C++ exception leaves a function. A bug in nibble aborts the process
 * with a line on stderr. nibble installs no signal handlers and reads no NIBBLE_* environment variables.
 *
 * Threads. Functions on a model may run at the same time in several threads, and so may functions on
 * different sessions. A session, or options, is used by one thread at a time; only nibble_session_cancel()
 * may be called from any thread, also while another function of the session runs. The close functions are
 * the last calls on an object. A process must not fork() while a model is open.
 *
 * Text. Every char* is UTF-8 with a final NUL. Other text is refused, except in a model's path.
 *
 * Compatibility. Programs that were compiled with this header run with later versions of libnibble.so.0.
 * nibble_event can grow at its end: its struct_bytes says which members the program knows. Programs must
 * ignore events of types that they do not know. */
#ifndef NIBBLE_H
#define NIBBLE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define NIBBLE_API __attribute__((visibility("default")))
#else
#define NIBBLE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t nibble_status;
enum {
  NIBBLE_OK = 0,
  NIBBLE_TIMEOUT = 1,       /* no event arrived in time; not an error */
  NIBBLE_BAD_INPUT = 2,     /* an option, a file of the model, a message or a token is wrong */
  NIBBLE_FAILED = 3,        /* the machine or the device failed */
  NIBBLE_OUT_OF_MEMORY = 4, /* the host's memory is exhausted */
  NIBBLE_BUSY = 5,          /* the session's answer has not ended */
  NIBBLE_TOO_SMALL = 6      /* a buffer is too small; the needed size was returned */
};

NIBBLE_API const char* nibble_version(void);                   /* such as "0.1.0" */
NIBBLE_API const char* nibble_status_name(nibble_status code); /* such as "bad input" */

/* The message of the last function that failed in the calling thread; empty if none has. Valid until the
 * thread calls another function of this library. */
NIBBLE_API const char* nibble_last_error(void);

/* --- Options --------------------------------------------------------------------------------------------
 * Options are flags of the program without dashes: "context", "temperature". A model takes all of them. Those
 * of the groups Machine and Places (`nibble serve --help`) are its own. Those of the groups Instructions and
 * Sampling (`nibble run --help`) belong to sessions; a model's are the defaults of its sessions. Not
 * supported: --nodes and its flags, --logprobs, --history. */
typedef struct nibble_options nibble_options;

NIBBLE_API nibble_status nibble_options_create(nibble_options** options);
NIBBLE_API void nibble_options_free(nibble_options* options); /* NULL: does nothing */

/* Sets an option. "stop" adds a stop string; any other option is replaced. NIBBLE_BAD_INPUT: there is no
 * such option, or it does not accept the value; nibble_last_error() says what it accepts. */
NIBBLE_API nibble_status nibble_options_set(nibble_options* options, const char* name, const char* value);

/* Called while a model loads: `task` ("loading openai/gpt-oss-20b") is done to `done` of `total` bytes. It
 * runs in any thread, in one at a time, and must not call this library or throw. */
typedef void (*nibble_progress)(void* data, const char* task, uint64_t done, uint64_t total);
NIBBLE_API nibble_status nibble_options_set_progress(nibble_options* options, nibble_progress progress,
                                                     void* data);

/* --- Models -------------------------------------------------------------------------------------------- */
typedef struct nibble_model nibble_model;

/* Opens and loads a model: a folder, a file, or a name as for `nibble run`. Waits until it is loaded.
 * `options` may be NULL, and may be freed afterwards. Log lines go to stderr, from level "log-level" up; the
 * first model of the process sets it. */
NIBBLE_API nibble_status nibble_model_open(const char* name, const nibble_options* options,
                                           nibble_model** model);

/* Gives the model back. Its memory is freed once its last session is closed. NULL: does nothing. */
NIBBLE_API void nibble_model_close(nibble_model* model);

/* Maximum number of tokens of prompt and answer together. */
NIBBLE_API int32_t nibble_model_context(const nibble_model* model);

/* Converts text to tokens, and tokens to text, which may end within a character. *num_tokens and *text_bytes
 * (the last parameter) hold the capacity of the output before the call, and the size of the whole result
 * after NIBBLE_OK or NIBBLE_TOO_SMALL. Capacity 0 only counts, and gives NIBBLE_OK; the output may then be
 * NULL. The text may contain NULs and invalid UTF-8. No NUL is appended. */
NIBBLE_API nibble_status nibble_model_encode(const nibble_model* model, const char* text, size_t text_bytes,
                                             int32_t* tokens, size_t* num_tokens);
/* As nibble_model_encode(), but "<|start|>" and the like become control tokens. Not for text from users. */
NIBBLE_API nibble_status nibble_model_encode_controls(const nibble_model* model, const char* text,
                                                      size_t text_bytes, int32_t* tokens, size_t* num_tokens);
NIBBLE_API nibble_status nibble_model_decode(const nibble_model* model, const int32_t* tokens,
                                             size_t num_tokens, char* text, size_t* text_bytes);

/* --- Sessions -------------------------------------------------------------------------------------------
 * A session is a conversation: messages, options, and at most one answer at a time. Sessions of one model
 * share its steps. A conversation's next turn reuses the KV cache of the turns before. */
typedef struct nibble_session nibble_session;

NIBBLE_API nibble_status nibble_session_open(nibble_model* model, const nibble_options* options,
                                             nibble_session** session); /* options may be NULL */
NIBBLE_API void nibble_session_close(nibble_session* session); /* cancels its answer. NULL: does nothing */

/* The following functions change a session between answers; during one they return NIBBLE_BUSY. */

/* As nibble_options_set(). A value of NULL restores the default of `nibble run`. */
NIBBLE_API nibble_status nibble_session_set(nibble_session* session, const char* name, const char* value);
/* Constrains answers to a JSON schema, or to a grammar in GBNF. It replaces the one before, also a file from
 * the options "json-schema" and "grammar". NULL: no constraint. Compiled when an answer starts. */
NIBBLE_API nibble_status nibble_session_set_json_schema(nibble_session* session, const char* schema);
NIBBLE_API nibble_status nibble_session_set_grammar(nibble_session* session, const char* grammar);
/* Offers functions: a JSON list of tools in the form of OpenAI's Chat Completions. "[]": none. */
NIBBLE_API nibble_status nibble_session_set_tools(nibble_session* session, const char* tools);

/* Appends a message without requesting an answer. `role`: "system", "developer", "user" or "assistant". */
NIBBLE_API nibble_status nibble_session_add(nibble_session* session, const char* role, const char* text);
/* Appends a message of OpenAI's Chat Completions, such as the result of a call:
 * {"role": "tool", "tool_call_id": "call_1", "content": "12 degrees"}. */
NIBBLE_API nibble_status nibble_session_add_json(nibble_session* session, const char* message);
NIBBLE_API nibble_status nibble_session_clear(nibble_session* session); /* removes all messages */

/* Counts the tokens of the prompt that nibble_session_answer() would send. */
NIBBLE_API nibble_status nibble_session_count_tokens(nibble_session* session, size_t* num_tokens);

/* Starts an answer to the messages. When it has ended, it becomes a message of the session, unless it has
 * neither text nor a call. */
NIBBLE_API nibble_status nibble_session_answer(nibble_session* session);
/* Appends a message of the user and starts the answer. If there is no answer, or an empty one, the message is
 * removed again. */
NIBBLE_API nibble_status nibble_session_send(nibble_session* session, const char* text);
/* Continues tokens as raw text, without a chat. The session's messages are neither used nor changed. */
NIBBLE_API nibble_status nibble_session_send_tokens(nibble_session* session, const int32_t* tokens,
                                                    size_t num_tokens);

/* --- Events -------------------------------------------------------------------------------------------- */
typedef int32_t nibble_event_type;
enum {
  NIBBLE_EVENT_TEXT = 1,      /* a piece of the answer */
  NIBBLE_EVENT_REASONING = 2, /* a piece of the reasoning that precedes it */
  NIBBLE_EVENT_CALL = 3, /* a complete call of a function; `text` is its arguments, as the model wrote them */
  NIBBLE_EVENT_FINISHED = 4 /* the last event of an answer */
};

typedef int32_t nibble_finish;
enum {
  NIBBLE_FINISH_STOP_TOKEN = 1,   /* the model ended its answer, or called a function */
  NIBBLE_FINISH_STOP_STRING = 2,  /* option "stop" */
  NIBBLE_FINISH_MAX_TOKENS = 3,   /* option "max-tokens" */
  NIBBLE_FINISH_CONTEXT_FULL = 4, /* option "context" */
  NIBBLE_FINISH_CANCELLED = 5     /* nibble_session_cancel() */
};

typedef struct nibble_event {
  size_t struct_bytes; /* set by the caller: sizeof(nibble_event) */
  nibble_event_type type;
  nibble_finish finish;  /* FINISHED: why; else 0 */
  const char* text;      /* never NULL; valid until the session's next call, like all pointers below */
  size_t text_bytes;     /* length of text */
  const char* call_name; /* CALL: name of the function; else empty */
  const char* call_id;   /* CALL: id for the message with the result; else empty */
  const int32_t* tokens; /* tokens sampled since the event before: those of all events are the whole answer */
  size_t num_tokens;     /* number of elements of tokens */
  int32_t num_prompt_tokens; /* these five are set by FINISHED, else 0 */
  int32_t num_cached_tokens; /* tokens of the prompt that were taken from the KV cache */
  int32_t num_output_tokens;
  double prefill_seconds; /* time from the first step of the prompt to the first token */
  double decode_seconds;  /* time from the first token to the last */
} nibble_event;

/* Waits for the next event of the answer: up to timeout_ms milliseconds, or without limit if it is negative.
 * 0 only looks. Any status but NIBBLE_OK and NIBBLE_TIMEOUT ends the answer. NIBBLE_BAD_INPUT: no answer
 * runs, or a constraint took too much work. */
NIBBLE_API nibble_status nibble_session_next_event(nibble_session* session, int32_t timeout_ms,
                                                   nibble_event* event);

/* Ends the running answer early: its last event follows soon, and what was answered stays in the session.
 * Does nothing if no answer runs. Can be called from any thread. */
NIBBLE_API void nibble_session_cancel(nibble_session* session);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* NIBBLE_H */
