class BatchSpoutAdapter: pass
