BEGIN TRANSACTION;
CREATE TABLE "_trident" (
        state TEXT NOT NULL PRIMARY KEY COLLATE NOCASE,
        topology TEXT NOT NULL, uuid TEXT NOT NULL, incarnation INTEGER NOT NULL,
        fence INTEGER NOT NULL, owner TEXT NOT NULL, columns TEXT NOT NULL,
        txid INTEGER, epoch INTEGER, attempt_id INTEGER, run_first INTEGER
    );
INSERT INTO "_trident" VALUES('counts','golden-owed-success','f31e3026-4a30-4c6d-8c9d-c069ac8748f7',1,1,'9b26fe249e52465d93a72633a897b062','batch bigint, count bigint',3,1,0,3);
CREATE TABLE "counts" ("batch" INTEGER CHECK (typeof("batch") IN ('integer', 'null')), "count" INTEGER CHECK (typeof("count") IN ('integer', 'null')), "_key" TEXT NOT NULL PRIMARY KEY, "_txid" INTEGER NOT NULL, "_prev" INTEGER, "_born" INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "counts" VALUES(1,3,'[1]',1,NULL,1);
INSERT INTO "counts" VALUES(2,3,'[2]',2,NULL,2);
INSERT INTO "counts" VALUES(3,3,'[3]',3,NULL,3);
COMMIT;
