# cause: main-not-protected
# torch: 1.13 2.13
# ranks: 1
import multiprocessing

multiprocessing.set_start_method("spawn", force=True)
process = multiprocessing.Process(target=print)
process.start()
process.join()
raise SystemExit(process.exitcode)
