// A local web server for one test. Downloads of /range/FILE can be resumed. /plain/FILE is always sent whole.
// /bare/FILE is like /range/FILE, but if nothing is left to send, the response does not state the file's size. Other
// paths give 404.
#pragma once
#include <signal.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "tests/engine/files/temporary_directory.h"

namespace foldgrad::testing {

inline bool python_available() { return std::system("python3 -c '' >/dev/null 2>&1") == 0; }

class HttpServer {
 public:
  explicit HttpServer(const std::string& directory) {
    write_bytes(directory + "/server.py", R"(
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        kind, name = self.path.strip('/').split('/', 1)
        if kind not in ('range', 'plain', 'bare') or not os.path.exists(name):
            return self.send_error(404)
        data = open(name, 'rb').read()
        start = self.headers.get('Range', '')
        begin = int(start.split('=')[1].split('-')[0]) if start and kind != 'plain' else 0
        if begin > len(data) or begin == len(data) > 0:
            self.send_response(416)
            if kind == 'range':
                self.send_header('Content-Range', 'bytes */%d' % len(data))
            self.send_header('Content-Length', '0')
            return self.end_headers()
        with open('log', 'a') as log:  # before the response, since the test may then read the log
            log.write('%s %s\n' % (self.path, start))
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header('Content-Range', 'bytes %d-%d/%d' % (begin, len(data) - 1, len(data)))
        self.send_header('Content-Length', str(len(data) - begin))
        self.end_headers()
        self.wfile.write(data[begin:])
    def log_message(self, *_): pass
server = http.server.HTTPServer(('127.0.0.1', 0), Handler)
print(server.server_port, os.getpid(), flush=True)
server.serve_forever()
)");
    pipe_ = popen(("cd '" + directory + "' && exec python3 server.py").c_str(), "r");
    if (!pipe_ || std::fscanf(pipe_, "%d %d", &port_, &process_) != 2) throw std::runtime_error("no web server");
  }
  ~HttpServer() {
    kill(process_, SIGKILL);
    pclose(pipe_);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url(const std::string& path) const { return "http://127.0.0.1:" + std::to_string(port_) + "/" + path; }

 private:
  std::FILE* pipe_;
  int port_ = 0, process_ = 0;
};

}  // namespace foldgrad::testing
