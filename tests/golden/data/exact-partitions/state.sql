BEGIN TRANSACTION;
CREATE TABLE "_trident" (
        state TEXT NOT NULL PRIMARY KEY COLLATE NOCASE,
        topology TEXT NOT NULL, uuid TEXT NOT NULL, incarnation INTEGER NOT NULL,
        fence INTEGER NOT NULL, owner TEXT NOT NULL, columns TEXT NOT NULL,
        txid INTEGER, epoch INTEGER, attempt_id INTEGER, run_first INTEGER
    );
INSERT INTO "_trident" VALUES('sums','golden-exact-partitions','c089ae83-7948-4d9e-8ee5-dcfdb6438db4',1,1,'3b5fd2adf3d5432b91729776273ecbdc','shelf string, sum bigint',1,1,0,1);
CREATE TABLE "sums" ("shelf" TEXT CHECK (typeof("shelf") IN ('text', 'null')), "sum" INTEGER CHECK (typeof("sum") IN ('integer', 'null')), "_key" TEXT NOT NULL PRIMARY KEY, "_txid" INTEGER NOT NULL, "_prev" INTEGER, "_born" INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "sums" VALUES('left',1,'["left"]',1,NULL,1);
INSERT INTO "sums" VALUES('right',1,'["right"]',1,NULL,1);
COMMIT;
